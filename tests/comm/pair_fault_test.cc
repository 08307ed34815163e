// Send and Receive whose peer is killed, leaves, never comes, or means another message.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::AwaitAllRanks;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::Join;
using testing::RunRanks;

absl::Status Within(absl::Duration limit, absl::Time fault) {
  const absl::Duration took = absl::Now() - fault;
  return Expect(took < limit, absl::StrCat("noticed after ", absl::FormatDuration(took)));
}

TEST_CASE("a killed peer fails a receive within seconds, by name, number and step") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(2, absl::Seconds(40), [&backend](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, {.backend = backend, .timeout = absl::Seconds(30)}));
      comm->SetErrorContext([] { return "step 5"; });
      std::vector<float> data(1 << 20);
      if (world.rank == 1) {
        DISTILL_RETURN_IF_ERROR(comm->Send(data.data(), 1 << 20, DType::kFloat32, 0));
        DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
        kill(getpid(), SIGKILL);
      }
      DISTILL_RETURN_IF_ERROR(comm->Receive(data.data(), 1 << 20, DType::kFloat32, 1));
      DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
      const absl::Time killed = absl::Now();  // as good as now
      const absl::Status status = comm->Receive(data.data(), 1 << 20, DType::kFloat32, 1);
      DISTILL_RETURN_IF_ERROR(Within(absl::Seconds(8), killed));
      DISTILL_RETURN_IF_ERROR(
          ExpectError(status, absl::StatusCode::kUnavailable,
                      {absl::StrCat("receive from rank 1 number 2 over ", FieldText(backend), " failed on rank 0 on "),
                       "(step 5)", absl::StrCat("rank 1 on ", world.host, " was lost")}));
      return Expect(comm->Barrier() == status, "not poisoned");
    });
    CHECK(Failures({outcomes[0]}) == "");
  }
}

TEST_CASE("a peer that left is named at once, and others that left do not matter") {
  for (const BackendPreference backend : testing::Backends()) {
    const auto outcomes = RunRanks(3, absl::Seconds(30), [&backend](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, {.backend = backend, .timeout = absl::Seconds(20)}));
      DISTILL_RETURN_IF_ERROR(comm->Barrier());
      if (world.rank == 2) return absl::OkStatus();
      absl::SleepFor(absl::Milliseconds(500));
      int64_t value = 41;
      if (world.rank == 1) return comm->Send(&value, 1, DType::kInt64, 0);
      DISTILL_RETURN_IF_ERROR(comm->Receive(&value, 1, DType::kInt64, 1));
      const absl::Time start = absl::Now();  // rank 2 has left by now
      const absl::Status status = comm->Receive(&value, 1, DType::kInt64, 2);
      DISTILL_RETURN_IF_ERROR(Within(absl::Seconds(5), start));
      return ExpectError(status, absl::StatusCode::kUnavailable,
                         {"receive from rank 2 number 1", absl::StrCat("rank 2 on ", world.host, " has left the job")});
    });
    CHECK(Failures(outcomes) == "");
  }
}

TEST_CASE("a message that never comes runs into the deadline, by name") {
  const auto jobs = testing::RunJobs(2, 2, absl::Seconds(30), [&](int job, const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm,
                             Join(world, {.backend = testing::kBackends[job], .timeout = absl::Seconds(2)}));
    if (world.rank == 1) {
      absl::SleepFor(absl::Seconds(5));
      return absl::OkStatus();
    }
    float x = 0;
    const absl::Time start = absl::Now();
    DISTILL_RETURN_IF_ERROR(
        ExpectError(comm->Receive(&x, 1, DType::kFloat32, 1), absl::StatusCode::kDeadlineExceeded,
                    {"receive from rank 1 number 1", absl::StrCat("rank 1 on ", world.host), "took longer than 2s"}));
    return Within(absl::Seconds(4), start);
  });
  for (const auto& outcomes : jobs) CHECK(Failures(outcomes) == "");
}

TEST_CASE("a message of another length or type is an error with both views") {
  const auto outcomes = RunRanks(2, absl::Seconds(30), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm,
                             Join(world, {.backend = BackendPreference::kShm, .timeout = absl::Seconds(20)}));
    std::vector<float> data(1000);
    const absl::Status status = world.rank == 0 ? comm->Send(data.data(), 1000, DType::kFloat32, 1)
                                                : comm->Receive(data.data(), 900, DType::kInt32, 0);
    return ExpectError(status, absl::StatusCode::kFailedPrecondition,
                       {"rank 0 on ", "sends 1000 float32", "rank 1 on ", "receives 900 int32"});
  });
  CHECK(Failures(outcomes) == "");
}

// Pieces of 256 KiB: of the longer message the first ones have the length that the other rank expects.
TEST_CASE("a message of another length or type over the fabric is an error with both views, and none is cut off") {
  struct Case {
    int64_t sent, expected;
    DType sent_type, expected_type;
    std::string views[2];
  };
  const Case cases[] = {
      {1000, 900, DType::kFloat32, DType::kFloat32, {"sends 1000 float32", "receives 900 float32"}},
      {131072, 65536, DType::kFloat32, DType::kFloat32, {"sends 131072 float32", "receives 65536 float32"}},
      {65536, 131072, DType::kFloat32, DType::kFloat32, {"sends 65536 float32", "receives 131072 float32"}},
      {7, 7, DType::kFloat32, DType::kInt32, {"sends 7 float32", "receives 7 int32"}},
  };
  const auto outcomes = RunRanks(2, absl::Seconds(60), [&cases](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm,
                             Join(world, {.backend = BackendPreference::kFabric, .timeout = absl::Seconds(20)}));
    std::vector<float> data(131072);
    for (const Case& c : cases) {
      DISTILL_ASSIGN_OR_RETURN(const auto part, comm->Split(0, 0));
      if (world.rank == 0) {
        (void)part->Send(data.data(), c.sent, c.sent_type, 1);  // may end before the other rank complains
      } else {
        DISTILL_RETURN_IF_ERROR(ExpectError(part->Receive(data.data(), c.expected, c.expected_type, 0),
                                            absl::StatusCode::kFailedPrecondition,
                                            {"receive from rank 0 number 1", "rank 0 on ", c.views[0], c.views[1]}));
      }
      DISTILL_RETURN_IF_ERROR(comm->Barrier());
    }
    return absl::OkStatus();
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
