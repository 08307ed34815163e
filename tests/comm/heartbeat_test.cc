// Ranks that stand still without dying, calls that are aborted, and calls that nothing can end.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::AwaitAllRanks;
using testing::Expect;
using testing::ExpectError;
using testing::ExpectWithin;
using testing::Failures;
using testing::Join;
using testing::RunJobs;
using testing::RunRanks;

// The jobs of a test that mostly waits, all at one time.
constexpr absl::Duration kHeartbeat = absl::Seconds(2);

CommunicatorOptions Options(BackendPreference backend) {
  return {.backend = backend, .timeout = absl::Seconds(60), .heartbeat_timeout = kHeartbeat};
}

absl::Status ReduceForever(Communicator& comm) {
  std::vector<float> data(1 << 18, 1.0f);
  for (;;) {
    DISTILL_RETURN_IF_ERROR(comm.AllReduce(data.data(), data.data(), 1 << 18, DType::kFloat32, ReduceOp::kMax));
  }
}

TEST_CASE("a stopped rank is named by every other rank within the heartbeat's time-out") {
  constexpr int kStopped[] = {2, 0, 2, 0};
  const auto jobs = RunJobs(4, 3, absl::Seconds(40), [&](int job, const World& world) -> absl::Status {
    const BackendPreference backend = testing::kBackends[job / 2];
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, Options(backend)));
    comm->SetErrorContext([] { return "step 5"; });
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
    if (world.rank == kStopped[job]) kill(getpid(), SIGSTOP);
    return ExpectError(
        ExpectWithin(kHeartbeat + absl::Seconds(5), [&] { return ReduceForever(*comm); }),
        absl::StatusCode::kUnavailable,
        {absl::StrCat("all-reduce number 2 over ", FieldText(backend), " failed on rank ", world.rank, " on ",
                      world.host),
         "(step 5)",
         absl::StrCat("rank ", kStopped[job], " on ", world.host, " was lost: nothing heard from it for 2s")});
  });
  for (size_t job = 0; job < jobs.size(); ++job) {
    testing::PrintTimes(
        absl::StrCat("SIGSTOP of rank ", kStopped[job], " over ", FieldText(testing::kBackends[job / 2])), jobs[job]);
    for (const auto& outcome : jobs[job]) {
      if (outcome.rank == kStopped[job]) {
        CHECK(!outcome.ended);
        continue;
      }
      CHECK(Failures({outcome}) == "");
    }
  }
}

TEST_CASE("a rank that computes for longer than the heartbeat's time-out is not lost") {
  const auto jobs = RunJobs(2, 2, absl::Seconds(30), [](int job, const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, Options(testing::kBackends[job])));
    volatile double sum = 0;
    for (const Deadline busy = Deadline::After(2 * kHeartbeat); world.rank == 1 && !busy.Passed();) sum = sum + 1;
    return comm->Barrier();
  });
  for (const auto& outcomes : jobs) CHECK(Failures(outcomes) == "");
}

TEST_CASE("an abort ends the pending and the later calls of every rank, and does not wait") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(3, absl::Seconds(30), [&backend](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, Options(backend)));
      DISTILL_RETURN_IF_ERROR(comm->Barrier());  // nobody is still joining
      absl::Status status;
      absl::Duration took;
      if (world.rank == 1) {  // never makes the call
        absl::SleepFor(absl::Milliseconds(500));
        const absl::Time start = absl::Now();
        comm->Abort(absl::DataLossError("the disk is gone"));
        took = absl::Now() - start;
        status = comm->Barrier();
      } else {
        status = ExpectWithin(absl::Seconds(5), [&] { return comm->Barrier(); });
      }
      DISTILL_RETURN_IF_ERROR(Expect(took < absl::Seconds(1), "the abort blocked"));
      DISTILL_RETURN_IF_ERROR(
          ExpectError(status, absl::StatusCode::kDataLoss, {"barrier number 2", "the disk is gone"}));
      return Expect(comm->Barrier() == status, "not poisoned");
    });
    CHECK(Failures(outcomes) == "");
  }
}

// A backend of which something is stuck that nobody can end, as a driver may be: the barrier, or, after a barrier that
// fails, what lets go of its memory.
class StuckCommunicator : public CommBackend {
 public:
  explicit StuckCommunicator(bool in_abandon)
      : CommBackend(0, {"rank 0 on host-a", "rank 1 on host-b"}), in_abandon_(in_abandon) {}
  absl::string_view backend() const override { return "stuck"; }
  std::atomic<bool> aborted{false};

 protected:
  absl::Status Execute(const CommCall&) override {
    while (!in_abandon_ || !aborted) absl::SleepFor(absl::Milliseconds(10));
    return absl::CancelledError("told to stop");
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart&) override {
    return absl::UnimplementedError("no test splits this one");
  }
  void Abandon(const absl::Status&) override {
    while (in_abandon_) absl::SleepFor(absl::Hours(1));
  }

 private:
  const bool in_abandon_;
};

TEST_CASE("the watchdog ends a rank whose call, or the letting go after it, does not return after an abort",
          "[one_host]") {
  const bool in_abandon = GENERATE(false, true);
  CAPTURE(in_abandon);
  const testing::TempFolder folder;
  const std::string path = folder.Write("stderr", "");
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0);
  const auto outcomes = RunRanks(1, absl::Seconds(20), [&](World world) -> absl::Status {
    dup2(file, STDERR_FILENO);
    DISTILL_ASSIGN_OR_RETURN(auto meeting, CreateRendezvous(world, Deadline::After(absl::Seconds(5))));
    StuckCommunicator comm(in_abandon);
    comm.SetErrorContext([] { return "step 7"; });
    DISTILL_RETURN_IF_ERROR(comm.Attach(std::move(meeting), absl::Seconds(60), absl::Seconds(1)));
    std::thread aborts([&comm] {
      absl::SleepFor(absl::Milliseconds(500));  // the barrier has begun: otherwise it would return at once
      comm.Abort(absl::CancelledError("told to stop"));
      std::fprintf(stderr, "the abort returned\n");
      comm.aborted = true;
    });
    const absl::Status status = comm.Barrier();
    aborts.join();
    return status;
  });
  CHECK(outcomes[0].ended);
  CHECK(outcomes[0].took < absl::Seconds(8));
  close(file);
  const std::string text = folder.Read("stderr");
  INFO(text);
  CHECK(absl::StrContains(text, "the abort returned"));
  CHECK(absl::StrContains(text,
                          "the watchdog ends this process: barrier number 1 over stuck on rank 0 on host-a of 2 ranks "
                          "(step 7) does not return 1s after it had to end: told to stop"));
}

}  // namespace
}  // namespace distill
