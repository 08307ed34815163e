#include "libdistill/transport/fabric_endpoint.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "libdistill/core/deadline.h"
#include "libdistill/transport/fabric_library.h"
#include "libdistill/transport/fabric_rails.h"
#include "tests/support/catch.h"
#include "tests/support/stale_memory.h"

namespace distill {
namespace {

// Two endpoints of one process on loopback: peer 0 of `left` is `right`, and the other way round.
struct Pair {
  explicit Pair(const std::string& provider = "tcp") {
    setenv("FI_TCP_IFACE", "lo", 1);
    if (provider == "shm") testing::RemoveWhatItsNumberLeft();
    absl::StatusOr<std::unique_ptr<FabricEndpoint>> a = FabricEndpoint::Create({provider, "", 0, ""});
    absl::StatusOr<std::unique_ptr<FabricEndpoint>> b = FabricEndpoint::Create({provider, "", 0, ""});
    INFO(a.status());
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    left = *std::move(a);
    right = *std::move(b);
    REQUIRE(left->Connect({right->address(), left->address()}, {"rank 7 on there", "rank 5 on here"}).ok());
    REQUIRE(right->Connect({left->address(), right->address()}, {"rank 5 on here", "rank 7 on there"}).ok());
  }
  void Send(uint64_t tag, const std::vector<char>& data, size_t bytes, const FabricMemory& memory,
            FabricOperation* operation) {
    Start([&] { return left->Send(0, tag, data.data(), bytes, memory, operation); });
  }
  // `left` writes all of `data`.
  void Write(uint32_t notice, const std::vector<char>& data, const FabricMemory& memory, const FabricPlace& place,
             uint64_t offset, FabricOperation* operation) {
    Start([&] { return left->Write(0, notice, data.data(), data.size(), memory, place, offset, operation); });
  }
  // The first message makes the connection: until that stands, the provider asks to be tried again.
  void Start(const std::function<absl::StatusOr<bool>()>& post) {
    for (const Deadline deadline = Deadline::After(absl::Seconds(10)); !deadline.Passed();) {
      const absl::StatusOr<bool> posted = post();
      INFO(posted.status());
      REQUIRE(posted.ok());
      if (*posted) return;
      REQUIRE(left->Poll().ok());
      REQUIRE(right->Poll().ok());
    }
    FAIL("the provider stays busy");
  }
  void PollUntil(const std::vector<FabricOperation*>& operations) {
    const Deadline deadline = Deadline::After(absl::Seconds(10));
    for (FabricOperation* operation : operations) {
      while (!operation->done && !deadline.Passed()) {
        REQUIRE(left->Poll().ok());
        REQUIRE(right->Poll().ok());
      }
      REQUIRE(operation->done);
    }
  }
  std::unique_ptr<FabricEndpoint> left, right;
  FabricMemory nothing;
};

TEST_CASE("messages of any size arrive whole, by their tags and not by their order") {
  Pair pair;
  CHECK(pair.left->provider() == "tcp;ofi_rxm");
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{5000}, size_t{3} << 20}) {
    std::vector<char> first(bytes, 'a');
    std::vector<char> second(bytes, 'b');
    std::vector<char> in_first(bytes);
    std::vector<char> in_second(bytes);
    FabricOperation operations[4];
    const FabricMemory memory = pair.left->Register(first.data(), bytes).value();
    REQUIRE(*pair.right->Receive(0, 2, in_second.data(), bytes, pair.nothing, &operations[0]));
    REQUIRE(*pair.right->Receive(0, 1, in_first.data(), bytes, pair.nothing, &operations[1]));
    pair.Send(1, first, bytes, memory, &operations[2]);
    pair.Send(2, second, bytes, pair.nothing, &operations[3]);
    pair.PollUntil({&operations[0], &operations[1], &operations[2], &operations[3]});
    for (const FabricOperation& operation : operations) CHECK(operation.status.ok());
    CHECK(in_first == first);
    CHECK(in_second == second);
  }
}

TEST_CASE("a message of another length than expected is an error on the receiver") {
  Pair pair;
  std::vector<char> data(1000);
  for (const size_t sent : {size_t{999}, size_t{1000}}) {
    const size_t expected = sent == 999 ? 1000 : 999;
    std::vector<char> in(1000);
    FabricOperation send, receive;
    REQUIRE(*pair.right->Receive(0, sent, in.data(), expected, pair.nothing, &receive));
    pair.Send(sent, data, sent, pair.nothing, &send);
    pair.PollUntil({&receive});
    CHECK(absl::IsFailedPrecondition(receive.status));
    CHECK_THAT(std::string(receive.status.message()), Catch::Contains("rank 5 on here sent"));
  }
}

// shm's hold the number of a process and of an endpoint, as text.
TEST_CASE("endpoints of one provider have addresses of one length, whatever their numbers are") {
  const std::string provider = GENERATE("tcp", "shm");
  setenv("FI_TCP_IFACE", "lo", 1);
  if (provider == "shm") testing::RemoveWhatItsNumberLeft();
  std::vector<std::unique_ptr<FabricEndpoint>> endpoints;
  std::vector<std::string> addresses, names;
  for (int i = 0; i < 12; ++i) {
    endpoints.push_back(FabricEndpoint::Create({provider, "", 0, ""}).value());
    addresses.push_back(endpoints.back()->address());
    names.push_back("rank " + std::to_string(i));
  }
  CAPTURE(provider);
  for (const auto& endpoint : endpoints) CHECK(endpoint->Connect(addresses, names) == absl::OkStatus());
}

TEST_CASE("writes land where they are told, and are noticed whether they are waited for before or after") {
  const std::string provider = GENERATE("tcp", "shm");
  CAPTURE(provider);
  Pair pair(provider);
  CHECK(pair.left->write_access() == FabricWriteAccess::kPoor);
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{256} << 10, size_t{3} << 20}) {
    CAPTURE(bytes);
    std::vector<char> one(bytes, 'a'), two(bytes, 'b');
    std::vector<char> target(3 * bytes + 7, '.');
    const FabricMemory from_one = pair.left->Register(one.data(), bytes).value();
    const FabricMemory from_two = pair.left->Register(two.data(), bytes).value();
    const FabricMemory to = pair.right->Register(target.data(), target.size(), FabricUse::kForGood).value();
    FabricOperation first, second, arrived_first, arrived_second;
    pair.right->Await(0, 0xfffffff0, &arrived_first);
    CHECK_FALSE(arrived_first.done);
    pair.Write(0xfffffff1, two, from_two, pair.right->PlaceOf(to), 2 * bytes + 5, &second);
    pair.Write(0xfffffff0, one, from_one, pair.right->PlaceOf(to), 3, &first);
    pair.PollUntil({&first, &second, &arrived_first});
    for (FabricOperation* done : {&first, &second, &arrived_first}) CHECK(done->status.ok());
    // What was not waited for: no order of arrival is promised, so poll until it is there.
    pair.right->Await(0, 0xfffffff1, &arrived_second);
    pair.PollUntil({&arrived_second});
    std::vector<char> expected(target.size(), '.');
    std::fill_n(expected.begin() + 3, bytes, 'a');
    std::fill_n(expected.begin() + static_cast<ptrdiff_t>(2 * bytes + 5), bytes, 'b');
    CHECK(target == expected);
  }
}

TEST_CASE("nothing is written into memory whose endpoint is withdrawn, and the writer gets an error") {
  Pair pair;
  std::vector<char> out(1 << 20, 'x'), in(out.size());
  const FabricMemory to = pair.right->Register(in.data(), in.size(), FabricUse::kForGood).value();
  FabricOperation write, arrived;
  pair.right->Await(0, 7, &arrived);
  pair.Write(7, out, pair.nothing, pair.right->PlaceOf(to), 0, &write);
  pair.PollUntil({&write, &arrived});
  CHECK(in == out);
  std::fill(in.begin(), in.end(), 0);
  pair.right->Withdraw();
  const Deadline deadline = Deadline::After(absl::Seconds(10));
  absl::Status status;
  while (status.ok() && !deadline.Passed()) {
    status = pair.left->Write(0, 8, out.data(), out.size(), pair.nothing, pair.right->PlaceOf(to), 0, &write).status();
    while (status.ok() && !write.done && !deadline.Passed()) status = pair.left->Poll().status();
    if (status.ok() && write.done) status = write.status;
    pair.right->Sleep(absl::Milliseconds(1), -1);
  }
  CHECK_THAT(std::string(status.message()), Catch::Contains("rank 7 on there"));
  CHECK(in == std::vector<char>(in.size()));
}

TEST_CASE("nothing lands in a buffer once its endpoint is withdrawn, and nothing more can be started") {
  Pair pair;
  std::vector<char> out(1 << 20, 'x'), in(out.size());
  FabricOperation hello, heard, receive, send;
  REQUIRE(pair.right->Receive(0, 1, in.data(), 1, pair.nothing, &heard).value());
  pair.Send(1, out, 1, pair.nothing, &hello);
  pair.PollUntil({&heard, &hello});
  in[0] = 0;
  REQUIRE(pair.right->Receive(0, 2, in.data(), in.size(), pair.nothing, &receive).value());
  pair.right->Withdraw();
  CHECK(absl::IsUnavailable(pair.right->Poll().status()));
  CHECK(absl::IsUnavailable(pair.right->Receive(0, 3, in.data(), 1, pair.nothing, &heard).status()));
  CHECK(absl::IsUnavailable(pair.right->Send(0, 3, in.data(), 1, pair.nothing, &heard).status()));
  CHECK(pair.right->Register(in.data(), in.size(), FabricUse::kForGood).ok());
  (void)pair.left->Send(0, 2, out.data(), out.size(), pair.nothing, &send);
  const Deadline a_while = Deadline::After(absl::Milliseconds(100));
  while (!a_while.Passed() && pair.left->Poll().ok()) pair.right->Sleep(absl::Milliseconds(1), -1);
  CHECK(in == std::vector<char>(in.size()));
  CHECK_FALSE(receive.done);
}

TEST_CASE("the environment is written when libfabric is loaded, and not again") {
  REQUIRE(LoadFabricLibrary().ok());
  for (const char* name : {"FI_OFI_RXM_EAGER_LIMIT", "FI_OFI_RXM_BUFFER_SIZE", "FI_OFI_RXM_MSG_RX_SIZE"}) {
    INFO(name);
    REQUIRE(std::getenv(name) != nullptr);
    const std::string value = std::getenv(name);
    unsetenv(name);
    CHECK(FabricEndpoint::Create({"tcp", "", 0, ""}).ok());
    CHECK(std::getenv(name) == nullptr);
    setenv(name, value.c_str(), 1);
  }
}

// Far more than the endpoint has posted buffers for (FI_OFI_RXM_MSG_RX_SIZE).
TEST_CASE("thousands of messages that nobody waits for yet wait, and stop none that is waited for") {
  Pair pair;
  constexpr size_t kMessages = 3000;
  std::vector<std::vector<char>> sent(kMessages), received(kMessages, std::vector<char>(64));
  std::vector<FabricOperation> sends(kMessages), receives(kMessages);
  std::vector<FabricOperation*> all;
  for (size_t i = 0; i < kMessages; ++i) {
    sent[i].assign(64, static_cast<char>(i % 251));
    pair.Send(i, sent[i], 64, pair.nothing, &sends[i]);
    all.push_back(&sends[i]);
    REQUIRE(pair.right->Poll().ok());
  }
  for (size_t i = kMessages; i-- > 0;) {  // the last one first
    const absl::StatusOr<bool> posted = pair.right->Receive(0, i, received[i].data(), 64, pair.nothing, &receives[i]);
    REQUIRE(posted.ok());
    REQUIRE(*posted);
    pair.PollUntil({&receives[i]});
  }
  pair.PollUntil(all);
  CHECK(received == sent);
}

// Of this process, in bytes.
int64_t Resident() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * 4096;
}

// With what rxm takes by itself it is 71 MB; a job of 16 ranks a host in two levels, split in two, has 64 endpoints
// there. In a process of its own: what earlier tests have given back would hide it.
TEST_CASE("an endpoint over tcp takes at most 5 MiB", "[memory]") {
  setenv("FI_TCP_IFACE", "lo", 1);
  std::vector<std::unique_ptr<FabricEndpoint>> endpoints;
  endpoints.push_back(FabricEndpoint::Create({"tcp", "", 0, ""}).value());  // what the library keeps for all of them
  const int64_t before = Resident();
  constexpr int kEndpoints = 8;
  for (int i = 0; i < kEndpoints; ++i) endpoints.push_back(FabricEndpoint::Create({"tcp", "", 0, ""}).value());
  const int64_t each = (Resident() - before) / kEndpoints;
  INFO(each << " bytes");
  CHECK(each <= 5 << 20);
}

TEST_CASE("an unknown provider is refused by name") {
  const absl::Status status = FabricEndpoint::Create({"carrier_pigeon", "", 0, ""}).status();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("carrier_pigeon"));
}

TEST_CASE("addresses of another fabric are refused, by the name of their rank") {
  Pair pair;
  FabricCard cut = FabricCard::Decode(pair.right->address()).value();
  for (FabricRail& rail : cut.rails) rail.address.resize(3);
  for (const std::string& bad : {std::string("short"), cut.Encode()}) {
    const absl::Status status = pair.left->Connect({pair.left->address(), bad}, {"rank 0 on a", "rank 1 on b"});
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("rank 1 on b"));
  }
}

}  // namespace
}  // namespace distill
