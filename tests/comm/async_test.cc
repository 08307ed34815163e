#include "libdistill/comm/async.h"

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::Join;
using testing::RunRanks;

TEST_CASE("calls that were handed over run in order, beside those of another communicator") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(2, absl::Seconds(30), [&backend](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, {.backend = backend, .timeout = absl::Seconds(20)}));
      DISTILL_ASSIGN_OR_RETURN(const auto other, comm->Split(0, 0));
      DISTILL_ASSIGN_OR_RETURN(const auto calls, AsyncCalls::Start(comm.get()));
      int64_t value = 1;
      std::vector<AsyncCall> handles;
      for (int i = 0; i < 20; ++i) {  // doubles each time: one call reads what the one before wrote
        handles.push_back(calls->Run(
            [&value](Communicator& c) { return c.AllReduce(&value, &value, 1, DType::kInt64, ReduceOp::kSum); }));
      }
      for (int i = 0; i < 20; ++i) DISTILL_RETURN_IF_ERROR(other->Barrier());
      DISTILL_RETURN_IF_ERROR(handles.back().Wait());
      for (const AsyncCall& handle : handles) DISTILL_RETURN_IF_ERROR(Expect(handle.done(), "not in order"));
      return Expect(value == 1 << 20, absl::StrCat("got ", value));
    });
    CHECK(Failures(outcomes) == "");
  }
}

TEST_CASE("a call that fails is its handle's error, and every later one's") {
  const auto comm = CreateAloneCommunicator();
  const auto calls = AsyncCalls::Start(comm.get()).value();
  float x = 0;
  const AsyncCall bad = calls->Run([&](Communicator& c) { return c.Broadcast(&x, 1, DType::kFloat32, 3); });
  const AsyncCall later = calls->Run([](Communicator& c) { return c.Barrier(); });
  CHECK(ExpectError(bad.Wait(), absl::StatusCode::kInvalidArgument, {"broadcast number 1", "root 3"}).ok());
  CHECK(later.Wait() == bad.Wait());
}

TEST_CASE("destroying the thread lets the call that runs end, and cancels those that wait") {
  const auto comm = CreateAloneCommunicator();
  auto calls = AsyncCalls::Start(comm.get()).value();
  std::atomic<bool> running = false;
  std::atomic<bool> may_end = false;
  const AsyncCall first = calls->Run([&](Communicator&) {
    running = true;
    while (!may_end) absl::SleepFor(absl::Milliseconds(1));
    return absl::OkStatus();
  });
  const AsyncCall second = calls->Run([](Communicator& c) { return c.Barrier(); });
  while (!running) absl::SleepFor(absl::Milliseconds(1));
  CHECK(!first.done());
  // The second is cancelled while the first runs on.
  std::thread destroys([&calls] { calls.reset(); });
  CHECK(ExpectError(second.Wait(), absl::StatusCode::kCancelled, {"stopped before this call began"}).ok());
  CHECK(!first.done());
  may_end = true;
  destroys.join();
  CHECK(first.Wait().ok());
}

}  // namespace
}  // namespace distill
