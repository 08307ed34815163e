#include "libdistill/transport/fabric_endpoint.h"

#include <cstdlib>
#include <vector>

#include "libdistill/core/deadline.h"
#include "libdistill/transport/fabric_library.h"
#include "libdistill/transport/fabric_rails.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// Two endpoints of one process on loopback: peer 0 of `left` is `right`, and the other way round.
struct Pair {
  Pair() {
    setenv("FI_TCP_IFACE", "lo", 1);
    absl::StatusOr<std::unique_ptr<FabricEndpoint>> a = FabricEndpoint::Create({"tcp", "", 0, ""});
    absl::StatusOr<std::unique_ptr<FabricEndpoint>> b = FabricEndpoint::Create({"tcp", "", 0, ""});
    INFO(a.status());
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    left = *std::move(a);
    right = *std::move(b);
    REQUIRE(left->Connect({right->address(), left->address()}, {"rank 7 on there", "rank 5 on here"}).ok());
    REQUIRE(right->Connect({left->address(), right->address()}, {"rank 5 on here", "rank 7 on there"}).ok());
  }
  // The first message makes the connection: until that stands, the provider asks to be tried again.
  void Send(uint64_t tag, const std::vector<char>& data, size_t bytes, const FabricMemory& memory,
            FabricOperation* operation) {
    for (const Deadline deadline = Deadline::After(absl::Seconds(10)); !deadline.Passed();) {
      const absl::StatusOr<bool> posted = left->Send(0, tag, data.data(), bytes, memory, operation);
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
  CHECK(pair.right->RegisterForGood(in.data(), in.size()).ok());
  (void)pair.left->Send(0, 2, out.data(), out.size(), pair.nothing, &send);
  const Deadline a_while = Deadline::After(absl::Milliseconds(100));
  while (!a_while.Passed() && pair.left->Poll().ok()) pair.right->Sleep(absl::Milliseconds(1), -1);
  CHECK(in == std::vector<char>(in.size()));
  CHECK_FALSE(receive.done);
}

TEST_CASE("the environment is written when libfabric is loaded, and not again") {
  REQUIRE(LoadFabricLibrary().ok());
  for (const char* name : {"FI_OFI_RXM_EAGER_LIMIT", "FI_OFI_RXM_BUFFER_SIZE"}) {
    INFO(name);
    REQUIRE(std::getenv(name) != nullptr);
    const std::string value = std::getenv(name);
    unsetenv(name);
    CHECK(FabricEndpoint::Create({"tcp", "", 0, ""}).ok());
    CHECK(std::getenv(name) == nullptr);
    setenv(name, value.c_str(), 1);
  }
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
