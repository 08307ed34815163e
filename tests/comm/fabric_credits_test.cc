// A sender over the fabric whose messages go one way runs ahead of the receiver by a bounded number of them.
#include <sys/mman.h>

#include <atomic>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/fabric_credits.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/efa_like_ranks.h"
#include "tests/comm/join.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::Join;
using testing::RunRanks;

constexpr int64_t kBytes = 256 << 10;
// 75 MiB, or over the fabric like efa, where each takes long, a little more than a sender may run ahead.
const int64_t kCalls = testing::EfaLikeRails() == nullptr ? 300 : 120;

// What the ranks see of each other beside the fabric.
struct Shared {
  std::atomic<int> calls_of_senders{0};
  std::atomic<bool> receives{false};
};

// Until the senders have made no call for half a second: they wait, or have run ahead as far as there are calls.
void AwaitStandstill(const Shared& shared) {
  int before = -1;
  for (int now = shared.calls_of_senders; now != before; now = shared.calls_of_senders) {
    before = now;
    absl::SleepFor(absl::Milliseconds(500));
  }
}

Shared* MapShared() {
  void* place = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (place) Shared();
}

int64_t ResidentKibibytes() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    int64_t kibibytes = 0;
    if (word == "VmRSS:" && file >> kibibytes) return kibibytes;
  }
  return -1;
}

// Rank 1 sends to rank 0, which sleeps at first.
absl::Status SendOne(Communicator& comm, const std::string& operation, char* data) {
  if (operation == "broadcast") return comm.Broadcast(data, kBytes, DType::kUInt8, 1);
  if (operation == "reduce") return comm.Reduce(data, data, kBytes, DType::kUInt8, ReduceOp::kMax, 0);
  return comm.rank() == 1 ? comm.Send(data, kBytes, DType::kUInt8, 0) : comm.Receive(data, kBytes, DType::kUInt8, 1);
}

TEST_CASE("a rank that sends and sends waits for a receiver that sleeps, whose memory stays as it is") {
  for (const std::string operation : {"broadcast", "reduce", "send"}) {
    INFO(operation);
    Shared& shared = *MapShared();
    const auto outcomes = RunRanks(2, absl::Seconds(90), [&](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm,
                               Join(world, {.backend = BackendPreference::kFabric, .timeout = absl::Seconds(60)}));
      std::vector<char> data(kBytes, 'x');
      DISTILL_RETURN_IF_ERROR(comm->Barrier());
      if (world.rank == 0) {
        const int64_t before = ResidentKibibytes();
        AwaitStandstill(shared);
        const int64_t grown = ResidentKibibytes() - before;
        DISTILL_RETURN_IF_ERROR(Expect(grown < 48 << 10, absl::StrCat("it grew by ", grown, " KiB")));
        shared.receives = true;
      }
      for (int64_t i = 0; i < kCalls; ++i) {
        data[0] = static_cast<char>(world.rank == 1 ? i : 0);
        DISTILL_RETURN_IF_ERROR(SendOne(*comm, operation, data.data()));
        DISTILL_RETURN_IF_ERROR(Expect(data[0] == static_cast<char>(i) || operation == "reduce", "another message"));
        if (world.rank == 0) continue;
        ++shared.calls_of_senders;
        const bool far = i >= 2 * FabricCredits::kEvery;
        DISTILL_RETURN_IF_ERROR(Expect(!far || shared.receives, "the sender ran ahead"));
      }
      return comm->Barrier();
    });
    CHECK(Failures(outcomes) == "");
    munmap(&shared, sizeof(shared));
  }
}

// A tree's root has several ranks to send to, and several that send to it.
TEST_CASE("who sends along a tree waits for ranks that sleep, up and down") {
  for (const AlgorithmPreference tree : {AlgorithmPreference::kBinomialTree, AlgorithmPreference::kBinaryTree}) {
    for (const bool reduces : {false, true}) {
      CAPTURE(static_cast<int>(tree), reduces);
      Shared& shared = *MapShared();
      const auto outcomes = RunRanks(5, absl::Seconds(90), [&](const World& world) -> absl::Status {
        DISTILL_ASSIGN_OR_RETURN(
            const auto comm,
            Join(world, {.backend = BackendPreference::kFabric, .algorithm = tree, .timeout = absl::Seconds(60)}));
        std::vector<char> data(kBytes, 'x'), sums(kBytes);
        DISTILL_RETURN_IF_ERROR(comm->Barrier());
        const int sleeper = reduces ? 0 : 2;  // the root, or one of its children
        if (world.rank == sleeper) {
          const int64_t before = ResidentKibibytes();
          AwaitStandstill(shared);
          const int64_t grown = ResidentKibibytes() - before;
          DISTILL_RETURN_IF_ERROR(Expect(grown < 64 << 10, absl::StrCat("it grew by ", grown, " KiB")));
          shared.receives = true;
        }
        for (int64_t i = 0; i < kCalls; ++i) {
          data[0] = static_cast<char>(world.rank == 0 || reduces ? i : -1);
          DISTILL_RETURN_IF_ERROR(reduces
                                      ? comm->Reduce(data.data(), sums.data(), kBytes, DType::kUInt8, ReduceOp::kMax, 0)
                                      : comm->Broadcast(data.data(), kBytes, DType::kUInt8, 0));
          const char got = reduces && world.rank == 0 ? sums[0] : data[0];
          DISTILL_RETURN_IF_ERROR(Expect(got == static_cast<char>(i), "another message"));
          // What is on its way between the ranks, and what a rank between them has taken.
          const bool far = i >= 4 * FabricCredits::kEvery + 8;
          const bool concerned = reduces ? world.rank != 0 : world.rank == 0;
          if (concerned) ++shared.calls_of_senders;
          DISTILL_RETURN_IF_ERROR(Expect(!concerned || !far || shared.receives, "the sender ran ahead"));
        }
        return comm->Barrier();
      });
      CHECK(Failures(outcomes) == "");
      munmap(&shared, sizeof(shared));
    }
  }
}

// Over shared memory at the first message, over the fabric when the room for messages on their way is used up.
TEST_CASE("ranks that send in a circle, none receiving first, get an error that says so within the time-out") {
  const auto jobs = testing::RunJobs(2, 3, absl::Seconds(90), [&](int job, const World& world) -> absl::Status {
    const std::vector<std::string> hosts(3, "host-a");
    DISTILL_ASSIGN_OR_RETURN(const auto comm,
                             testing::JoinForCallsOf(absl::Seconds(5), world, testing::kBackends[job], hosts));
    const absl::Time start = absl::Now();
    absl::Status status;
    for (int round = 0; round < 40 && status.ok(); ++round) {
      char byte = 0;
      status = comm->Send(&byte, 1, DType::kUInt8, (world.rank + 1) % 3);
      if (status.ok()) status = comm->Receive(&byte, 1, DType::kUInt8, (world.rank + 2) % 3);
    }
    const absl::Duration took = absl::Now() - start;
    DISTILL_RETURN_IF_ERROR(Expect(took < absl::Seconds(25), absl::StrCat("took ", absl::FormatDuration(took))));
    return testing::ExpectError(
        status, absl::StatusCode::kDeadlineExceeded,
        {"send to rank ", "took longer than 5s", " did not receive (of ranks that send to each"});
  });
  for (const auto& outcomes : jobs) CHECK(Failures(outcomes) == "");
}

TEST_CASE("a sender may leave while the receiver is behind, and two ranks may send before they receive") {
  for (const int64_t calls : {16, 17, 32}) {
    const auto outcomes = RunRanks(3, absl::Seconds(60), [&](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm,
                               Join(world, {.backend = BackendPreference::kFabric, .timeout = absl::Seconds(30)}));
      std::vector<char> data(kBytes);
      for (int64_t i = 0; world.rank < 2 && i < 40; ++i) {
        DISTILL_RETURN_IF_ERROR(comm->Send(data.data(), 100, DType::kUInt8, 1 - world.rank));
        DISTILL_RETURN_IF_ERROR(comm->Receive(data.data(), 100, DType::kUInt8, 1 - world.rank));
      }
      DISTILL_RETURN_IF_ERROR(comm->Barrier());
      if (world.rank > 0) absl::SleepFor(absl::Milliseconds(50 * world.rank));
      for (int64_t i = 0; i < calls; ++i) {
        data[0] = static_cast<char>(world.rank == 0 ? i : -1);
        DISTILL_RETURN_IF_ERROR(comm->Broadcast(data.data(), kBytes, DType::kUInt8, 0));
        DISTILL_RETURN_IF_ERROR(Expect(data[0] == static_cast<char>(i), "another message"));
      }
      return absl::OkStatus();
    });
    INFO(calls);
    CHECK(Failures(outcomes) == "");
  }
}

}  // namespace
}  // namespace distill
