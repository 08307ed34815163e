// Endpoints that share their rails: what is one's never reaches another, whoever polls, and one that ends leaves the
// others as they were wherever that is safe.
#include "libdistill/transport/shared_rails.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/deadline.h"
#include "libdistill/transport/fabric_progress.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using Endpoint = std::unique_ptr<FabricEndpoint>;

Endpoint OpenOnLoopback() {
  setenv("FI_TCP_IFACE", "lo", 1);
  return FabricEndpoint::Create({"tcp", "", 0, ""}).value();
}

// Peer 0 of one is the other.
void Connect(FabricEndpoint& a, FabricEndpoint& b) {
  REQUIRE(a.Connect({b.address(), a.address()}, {"rank 7 on there", "rank 5 on here"}) == absl::OkStatus());
  REQUIRE(b.Connect({a.address(), b.address()}, {"rank 5 on here", "rank 7 on there"}) == absl::OkStatus());
}

// Two ranks, each with so many endpoints over one set of rails; number i of one is connected with number i of the
// other.
struct Ranks {
  explicit Ranks(size_t endpoints = 2) {
    for (std::vector<Endpoint>* rank : {&left, &right}) rank->push_back(OpenOnLoopback());
    Connect(*left[0], *right[0]);
    while (left.size() < endpoints) Add();
  }
  void Add() {
    for (std::vector<Endpoint>* rank : {&left, &right}) {
      rank->push_back(FabricEndpoint::CreateOver(rank->front()->shared_rails(), 0).value());
      REQUIRE(rank->back() != nullptr);
    }
    Connect(*left.back(), *right.back());
  }
  // Until `post` has started something: the first message makes the connection.
  void Start(const std::function<absl::StatusOr<bool>()>& post) {
    for (const Deadline deadline = Deadline::After(absl::Seconds(10)); !deadline.Passed(); PollAll()) {
      const absl::StatusOr<bool> posted = post();
      INFO(posted.status());
      REQUIRE(posted.ok());
      if (*posted) return;
    }
    FAIL("the provider stays busy");
  }
  void Send(size_t i, uint64_t tag, const std::vector<char>& data, FabricOperation* operation) {
    Start([&] { return left[i]->Send(0, tag, data.data(), data.size(), nothing, operation); });
  }
  void Receive(size_t i, uint64_t tag, std::vector<char>& data, FabricOperation* operation) {
    Start([&] { return right[i]->Receive(0, tag, data.data(), data.size(), nothing, operation); });
  }
  // Those that are not withdrawn.
  void PollAll() {
    for (std::vector<Endpoint>* rank : {&left, &right}) {
      for (const Endpoint& endpoint : *rank) (void)endpoint->Poll();
    }
  }
  void PollUntil(const std::vector<FabricOperation*>& operations) {
    const Deadline deadline = Deadline::After(absl::Seconds(10));
    for (FabricOperation* operation : operations) {
      while (!operation->done && !deadline.Passed()) PollAll();
      REQUIRE(operation->done);
      CHECK(operation->status == absl::OkStatus());
    }
  }
  void PollFor(absl::Duration time) {
    for (const Deadline deadline = Deadline::After(time); !deadline.Passed();) PollAll();
  }
  // A message over each of these pairs of endpoints arrives.
  void CheckMessages(const std::vector<size_t>& pairs) {
    for (const size_t i : pairs) {
      std::vector<char> out(100'000, static_cast<char>('a' + i)), in(out.size());
      FabricOperation send, receive;
      Receive(i, 99, in, &receive);
      Send(i, 99, out, &send);
      PollUntil({&send, &receive});
      CHECK(in == out);
    }
  }
  std::vector<Endpoint> left, right;
  FabricMemory nothing;
};

TEST_CASE("messages with one tag reach the endpoint that they are for, of those that share rails") {
  Ranks ranks(3);
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{1} << 20}) {
    std::vector<std::vector<char>> out, in(3, std::vector<char>(bytes));
    FabricOperation sends[3], receives[3];
    for (size_t i = 0; i < 3; ++i) out.emplace_back(bytes, static_cast<char>('a' + i));
    for (const size_t i : {2, 0, 1}) ranks.Send(i, 4, out[i], &sends[i]);
    for (const size_t i : {1, 2, 0}) ranks.Receive(i, 4, in[i], &receives[i]);
    ranks.PollUntil({&sends[0], &sends[1], &sends[2], &receives[0], &receives[1], &receives[2]});
    CHECK(in == out);
  }
}

TEST_CASE("writes with one notice reach the endpoint that they are for") {
  Ranks ranks(2);
  std::vector<char> out(5000, 'x'), in(out.size());
  const FabricMemory to = ranks.right[1]->Register(in.data(), in.size(), FabricUse::kForGood).value();
  FabricOperation write, awaited[2];
  constexpr uint32_t kNotice = 0x12000003;  // of which 24 bits go with the write
  for (const size_t i : {0, 1}) ranks.right[i]->Await(0, kNotice, &awaited[i]);
  ranks.Start([&] {
    return ranks.left[1]->Write(0, kNotice, out.data(), out.size(), ranks.nothing, ranks.right[1]->PlaceOf(to), 0,
                                &write);
  });
  ranks.PollUntil({&write, &awaited[1]});
  CHECK(in == out);
  CHECK_FALSE(awaited[0].done);
}

TEST_CASE("an endpoint that sleeps wakes when another one's poll has found what it waits for") {
  Ranks ranks(2);
  ranks.CheckMessages({0, 1});
  std::vector<char> out(10, 'x'), in(10);
  FabricOperation send, receive;
  ranks.Receive(1, 5, in, &receive);
  absl::Duration slept;
  std::thread sleeper([&] {
    const absl::Time begin = absl::Now();
    while (!receive.done && absl::Now() < begin + absl::Seconds(20)) {
      ranks.right[1]->Sleep(absl::Seconds(20), -1);
      (void)ranks.right[1]->Poll();
    }
    slept = absl::Now() - begin;
  });
  absl::SleepFor(absl::Milliseconds(50));
  while (!ranks.left[1]->Send(0, 5, out.data(), out.size(), ranks.nothing, &send).value()) (void)ranks.left[0]->Poll();
  const Deadline deadline = Deadline::After(absl::Seconds(10));
  while (!send.done && !deadline.Passed()) {
    (void)ranks.left[1]->Poll();
    (void)ranks.right[0]->Poll();  // may find what the other waits for
  }
  sleeper.join();
  CHECK(in == out);
  CHECK(slept < absl::Seconds(15));
}

TEST_CASE("an endpoint whose receives nothing has reached ends alone, and nothing lands in its buffers") {
  Ranks ranks(3);
  ranks.CheckMessages({0, 1, 2});
  std::vector<char> out(10, 'x'), in(10), in_other(10);
  FabricOperation send, receives[3], of_other;
  for (uint64_t tag = 1; tag <= 3; ++tag) ranks.Receive(1, tag, in, &receives[tag - 1]);
  ranks.Receive(2, 2, in_other, &of_other);
  ranks.right[1]->Withdraw();
  CHECK(absl::IsUnavailable(ranks.right[1]->Poll().status()));
  ranks.Send(1, 2, out, &send);
  ranks.PollFor(absl::Milliseconds(100));
  CHECK(in == std::vector<char>(10));
  CHECK_FALSE(of_other.done);
  ranks.Send(2, 2, out, &send);
  ranks.PollUntil({&of_other});
  ranks.CheckMessages({0, 2});
}

// The long message asks its receiver, who never answers.
TEST_CASE("where an operation cannot be taken back, the rails are closed for all, who hear why at once") {
  Ranks ranks(2);
  ranks.CheckMessages({0, 1});
  std::vector<char> out(8 << 20, 'x');
  FabricOperation send;
  ranks.Send(1, 5, out, &send);
  absl::Status heard;
  absl::Duration slept;
  std::thread other([&] {
    const absl::Time begin = absl::Now();
    for (heard = absl::OkStatus(); heard.ok() && absl::Now() < begin + absl::Seconds(20);) {
      ranks.left[0]->Sleep(absl::Seconds(20), -1);
      heard = ranks.left[0]->Poll().status();
    }
    slept = absl::Now() - begin;
  });
  absl::SleepFor(absl::Milliseconds(50));
  const absl::Time begin = absl::Now();
  ranks.left[1]->Withdraw();
  CHECK(absl::Now() - begin < absl::Seconds(5));
  other.join();
  CHECK(slept < absl::Seconds(10));
  CHECK(absl::IsUnavailable(heard));
  CHECK_THAT(std::string(heard.message()),
             Catch::Contains("after an error of another communicator") && Catch::Contains("DISTILL_FABRIC_SHARED=0"));
  CHECK(ranks.left[0]->Send(0, 6, out.data(), 1, ranks.nothing, &send).status() == heard);
  CHECK(FabricEndpoint::CreateOver(ranks.left[0]->shared_rails(), 0).value() == nullptr);
}

// tcp's connection ends with it, and with that connection what others have on their way.
TEST_CASE("a message that is longer than expected is its endpoint's error, and then ends all that share a connection") {
  Ranks ranks(2);
  ranks.CheckMessages({0, 1});
  std::vector<char> out(1000, 'x'), in(999);
  FabricOperation send, receive;
  ranks.Receive(1, 5, in, &receive);
  ranks.Send(1, 5, out, &send);
  absl::Status heard;
  for (const Deadline deadline = Deadline::After(absl::Seconds(10)); heard.ok() && !deadline.Passed();) {
    (void)ranks.left[1]->Poll();
    heard = ranks.right[0]->Poll().status();  // which finds the other one's error, too
  }
  FabricOperation next;  // nothing is started, nor refused, before that one knows of its error
  CHECK(ranks.right[1]->Receive(0, 6, in.data(), in.size(), ranks.nothing, &next).value() == false);
  CHECK(ranks.right[1]->Poll().value());
  REQUIRE(receive.done);
  CHECK(absl::IsFailedPrecondition(receive.status));
  CHECK_THAT(std::string(receive.status.message()), Catch::Contains("rank 5 on here sent more bytes"));
  CHECK(absl::IsUnavailable(heard));
  CHECK_THAT(std::string(heard.message()), Catch::Contains("a message that was longer than expected"));
}

TEST_CASE("an endpoint that ends while peers may write closes the rails for all, and one that ends later does not") {
  for (const bool may : {true, false}) {
    CAPTURE(may);
    Ranks ranks(2);
    ranks.right[1]->PeersMayWrite(true);
    ranks.right[1]->PeersMayWrite(may);
    ranks.right[1]->Withdraw();
    CHECK(ranks.right[0]->Poll().ok() == !may);
    if (!may) ranks.CheckMessages({0});
  }
}

// The next errors of a queue, in the place of what libfabric has there.
std::vector<fi_cq_err_entry> errors;
fi_ops_cq queue_ops, real_queue_ops;
void Report(fid_cq* queue, const std::vector<fi_cq_err_entry>& next) {
  errors = next;
  if (queue->ops == &queue_ops) return;
  real_queue_ops = queue_ops = *queue->ops;
  queue_ops.read = [](fid_cq* of, void* entries, size_t most) -> ssize_t {
    return errors.empty() ? real_queue_ops.read(of, entries, most) : -FI_EAVAIL;
  };
  queue_ops.readerr = [](fid_cq*, fi_cq_err_entry* entry, uint64_t) -> ssize_t {
    *entry = errors.front();
    errors.erase(errors.begin());
    return 1;
  };
  queue->ops = &queue_ops;
}

fi_cq_err_entry ErrorOf(void* context) {
  fi_cq_err_entry entry = {};
  entry.op_context = context;
  entry.err = FI_EIO;
  return entry;
}

// As efa does, for each packet of a message to a peer that is gone.
TEST_CASE("an operation that the provider reports twice as failed ends once, and then the rails are closed") {
  Ranks ranks(2);
  ranks.CheckMessages({0, 1});
  std::vector<char> in(10);
  FabricOperation receives[3];
  for (uint64_t tag = 1; tag <= 3; ++tag) ranks.Receive(1, tag, in, &receives[tag - 1]);
  Report(ranks.right[1]->shared_rails()->rail(0).queue, {ErrorOf(&receives[0]), ErrorOf(&receives[0])});
  for (int i = 0; i < 3; ++i) CHECK(ranks.right[1]->Poll().ok());
  CHECK(receives[0].done);
  CHECK_THAT(std::string(receives[0].status.message()), Catch::Contains("receiving from rank 5 on here: Input/output"));
  CHECK_FALSE(receives[1].done);
  CHECK_FALSE(receives[2].done);
  ranks.right[1]->Withdraw();
  CHECK(ranks.right[1]->shared_rails()->rail(0).endpoint == nullptr);
  CHECK_THAT(std::string(ranks.right[0]->Poll().status().message()),
             Catch::Contains("after an error of another communicator"));
}

TEST_CASE("an error of the rails themselves is every endpoint's, and the first to withdraw closes them") {
  Ranks ranks(3);
  ranks.CheckMessages({0, 1, 2});
  std::vector<char> in(10);
  FabricOperation receive;
  ranks.Receive(1, 1, in, &receive);
  Report(ranks.right[1]->shared_rails()->rail(0).queue, {ErrorOf(nullptr)});
  for (const size_t i : {1, 0}) {
    const absl::Status heard = ranks.right[i]->Poll().status();
    CHECK_THAT(std::string(heard.message()), Catch::Contains("the fabric failed: Input/output"));
  }
  ranks.right[1]->Withdraw();
  CHECK(ranks.right[1]->shared_rails()->rail(0).endpoint == nullptr);
  CHECK_THAT(std::string(ranks.right[2]->Poll().status().message()), Catch::Contains("the fabric failed"));
}

// A message that its channel never received stays, and would reach whoever has the number next.
TEST_CASE(
    "256 endpoints have shared rails, whichever have gone, and one more does not; nor before the first connects") {
  Endpoint first = OpenOnLoopback();
  CHECK(FabricEndpoint::CreateOver(first->shared_rails(), 0).value() == nullptr);
  Endpoint peer = OpenOnLoopback();
  Connect(*first, *peer);
  std::vector<Endpoint> all;
  for (int i = 1; i < 256; ++i) {
    all.push_back(FabricEndpoint::CreateOver(first->shared_rails(), 0).value());
    REQUIRE(all.back() != nullptr);
    if (i % 3 == 0) all.erase(all.begin());
  }
  CHECK(FabricEndpoint::CreateOver(first->shared_rails(), 0).value() == nullptr);
}

// Each in a thread of its own, as communicators are, and at the same time.
TEST_CASE("endpoints that share rails carry messages at the same time, each on its thread") {
  constexpr size_t kPairs = 3;
  constexpr int kMessages = 200;
  Ranks ranks(kPairs);
  std::vector<std::unique_ptr<FabricProgress>> left, right;
  for (Endpoint& endpoint : ranks.left) left.push_back(FabricProgress::Start(std::move(endpoint), false).value());
  for (Endpoint& endpoint : ranks.right) right.push_back(FabricProgress::Start(std::move(endpoint), false).value());
  // One message after the other; the first letter says which.
  const auto exchange = [&](FabricEndpoint& endpoint, bool sends, char own) -> absl::Status {
    std::vector<char> data(sends ? 3000 : 5000);
    data.resize(3000);
    const Deadline deadline = Deadline::After(absl::Seconds(60));
    for (int m = 0; m < kMessages; ++m) {
      if (sends) data.assign(data.size(), static_cast<char>(own + m % 20));
      FabricOperation operation;
      for (bool posted = false; !posted || !operation.done;) {
        if (!posted) {
          absl::StatusOr<bool> started =
              sends
                  ? endpoint.Send(0, static_cast<uint64_t>(m), data.data(), data.size(), ranks.nothing, &operation)
                  : endpoint.Receive(0, static_cast<uint64_t>(m), data.data(), data.size(), ranks.nothing, &operation);
          if (!started.ok()) return started.status();
          posted = *started;
        }
        const absl::StatusOr<bool> polled = endpoint.Poll();
        if (!polled.ok()) return polled.status();
        if (!*polled && posted) endpoint.Sleep(absl::Milliseconds(20), -1);
        if (deadline.Passed()) return absl::DeadlineExceededError(absl::StrCat("message ", m));
      }
      if (!operation.status.ok()) return operation.status;
      if (data != std::vector<char>(data.size(), static_cast<char>(own + m % 20))) {
        return absl::InternalError(absl::StrCat("message ", m, " is another's"));
      }
    }
    return absl::OkStatus();
  };
  std::vector<absl::Status> outcomes(2 * kPairs);
  std::vector<std::thread> callers;
  for (size_t i = 0; i < kPairs; ++i) {
    const char own = static_cast<char>('A' + 20 * static_cast<int>(i));
    callers.emplace_back(
        [&, i, own] { outcomes[2 * i] = left[i]->Run([&] { return exchange(left[i]->endpoint(), true, own); }); });
    callers.emplace_back([&, i, own] {
      outcomes[2 * i + 1] = right[i]->Run([&] { return exchange(right[i]->endpoint(), false, own); });
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const absl::Status& outcome : outcomes) CHECK(outcome == absl::OkStatus());
}

// A connection that a peer makes, and its long message, need a thread that polls here.
TEST_CASE("a rank without a call serves its peers, also after the endpoint has gone whose thread did") {
  Ranks ranks(2);
  std::vector<std::unique_ptr<FabricProgress>> right;
  for (Endpoint& endpoint : ranks.right) right.push_back(FabricProgress::Start(std::move(endpoint), false).value());
  std::vector<char> out(1 << 20, 'x'), in(out.size());
  FabricOperation send, receive;
  const auto receive_on = [&](size_t i, uint64_t tag) {
    return right[i]->Run(
        [&] { return right[i]->endpoint().Receive(0, tag, in.data(), in.size(), ranks.nothing, &receive).status(); });
  };
  for (const uint64_t tag : {1, 2}) {  // the second time endpoint 0, the last in a call, has gone
    CAPTURE(tag);
    REQUIRE(receive_on(1, tag) == absl::OkStatus());
    REQUIRE(right[0]->Run([] { return absl::OkStatus(); }).ok());
    if (tag == 2) right[0].reset();
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    for (bool posted = false; !deadline.Passed() && !(posted && send.done);) {
      if (!posted) posted = ranks.left[1]->Send(0, tag, out.data(), out.size(), ranks.nothing, &send).value();
      REQUIRE(ranks.left[1]->Poll().ok());
    }
    REQUIRE(send.done);
    const auto is_done = [&]() -> absl::Status {  // on the thread that it belongs to
      if (receive.done) return receive.status;
      const absl::Status polled = right[1]->endpoint().Poll().status();
      return polled.ok() ? absl::NotFoundError("not here yet") : polled;
    };
    absl::Status received = absl::NotFoundError("not looked at");
    while (absl::IsNotFound(received) && !deadline.Passed()) received = right[1]->Run(is_done);
    CHECK(received == absl::OkStatus());
    CHECK(in == out);
    in.assign(in.size(), 0);
  }
  right.clear();
}

// Of this process, in a while in which nobody has anything to do.
double CpuSecondsOfNothing() {
  const auto cpu_seconds = [] { return clock() / static_cast<double>(CLOCKS_PER_SEC); };
  const double before = cpu_seconds();
  absl::SleepFor(absl::Milliseconds(400));
  return cpu_seconds() - before;
}

TEST_CASE("a thread without a call sleeps after another endpoint has closed the rails, whoever moves the data") {
  for (const fi_progress progress : {FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO}) {
    CAPTURE(static_cast<int>(progress));
    Ranks ranks(2);
    ranks.CheckMessages({0, 1});
    ranks.right[0]->shared_rails()->rail(0).info->domain_attr->data_progress = progress;
    const auto idle = FabricProgress::Start(std::move(ranks.right[1]), false).value();
    ranks.right.pop_back();
    ranks.right[0]->PeersMayWrite(true);
    ranks.right[0]->Withdraw();
    CHECK(CpuSecondsOfNothing() < 0.1);
  }
}

TEST_CASE("threads of endpoints that share rails leave the cores alone while none is in a call") {
  Ranks ranks(3);
  ranks.CheckMessages({0, 1, 2});
  std::vector<char> in(10);
  FabricOperation receive;
  ranks.Receive(2, 5, in, &receive);
  std::vector<std::unique_ptr<FabricProgress>> right;
  for (Endpoint& endpoint : ranks.right) right.push_back(FabricProgress::Start(std::move(endpoint), false).value());
  REQUIRE(right[0]->Run([] { return absl::OkStatus(); }).ok());
  std::vector<char> out(10, 'x');
  FabricOperation send;
  REQUIRE(ranks.left[2]->Send(0, 5, out.data(), out.size(), ranks.nothing, &send).value());
  for (const Deadline deadline = Deadline::After(absl::Seconds(10)); !send.done && !deadline.Passed();) {
    (void)ranks.left[2]->Poll();
  }
  CHECK(CpuSecondsOfNothing() < 0.1);  // endpoint 2 has news all this time, and no call that would take them
  right.clear();
}

}  // namespace
}  // namespace distill
