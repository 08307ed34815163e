// Run by mpirun: each rank is one process of this program.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/identity.h"
#include "libdistill/world/mpi_runtime.h"
#include "tests/comm/collectives_grid.h"
#include "tests/comm/random_schedule.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

std::unique_ptr<Communicator> Join(World world, BackendPreference backend, absl::Duration timeout, bool debug = false) {
  SetIdentity({world.rank, world.world_size, world.host});
  absl::StatusOr<std::unique_ptr<Communicator>> comm =
      CreateCommunicator(world, {.backend = backend, .timeout = timeout, .debug = debug});
  INFO(comm.status());
  REQUIRE(comm.ok());
  return *std::move(comm);
}

World MpiWorld() {
  const absl::StatusOr<World> world = ReadWorld();
  REQUIRE(world.ok());
  REQUIRE(world->launcher == "mpi");
  REQUIRE(world->rendezvous.empty());
  return *world;
}

TEST_CASE("every collective is exact over MPI") {
  const World world = MpiWorld();
  const auto comm = Join(world, BackendPreference::kMpi, absl::Seconds(30));
  CHECK(comm->backend() == (world.world_size == 1 ? "alone" : "mpi"));
  CHECK(testing::CheckCollectives(*comm, {}) == absl::OkStatus());
  CHECK(testing::CheckLargeCollectives(*comm, 5 << 20) == absl::OkStatus());
  CHECK(testing::CheckSameBits(*comm) == absl::OkStatus());
  CHECK(Agree(*comm, absl::OkStatus()) == absl::OkStatus());
}

TEST_CASE("random schedules over communicators that were split over MPI give what one process computes") {
  const auto comm = Join(MpiWorld(), BackendPreference::kMpi, absl::Seconds(30));
  CHECK(testing::RunRandomSchedule(*comm, 11, 150) == absl::OkStatus());
}

TEST_CASE("parts of a split over MPI have a name, an order and an end of their own") {
  const World world = MpiWorld();
  const auto comm = Join(world, BackendPreference::kMpi, absl::Seconds(30));
  const auto part = comm->Split(comm->rank() == 0 ? -1 : 3, -comm->rank()).value();
  CHECK((part == nullptr) == (world.rank == 0));
  if (part == nullptr) return;
  CHECK(part->backend() == (part->world_size() == 1 ? "alone" : "mpi"));
  CHECK(part->world_size() == world.world_size - 1);
  CHECK(part->rank() == world.world_size - 1 - world.rank);
  CHECK(testing::CheckSameBits(*part) == absl::OkStatus());
}

TEST_CASE("a message of another length or type over MPI fails the receiver's part with both views, and no more") {
  const auto comm = Join(MpiWorld(), BackendPreference::kMpi, absl::Seconds(30));
  struct Case {
    int64_t count;
    DType dtype;
    const char* view;
  };
  for (const Case& sent : {Case{5, DType::kFloat32, "sends 5 float32"}, Case{3, DType::kFloat32, "sends 3 float32"},
                           Case{4, DType::kInt32, "sends 4 int32"}}) {
    const auto part = comm->Split(comm->rank() / 2, 0).value();
    float data[5] = {};
    if (part->world_size() == 2 && part->rank() == 0) (void)part->Send(data, sent.count, sent.dtype, 1);
    if (part->world_size() == 2 && part->rank() == 1) {
      const absl::Status status = part->Receive(data, 4, DType::kFloat32, 0);
      INFO(status);
      CHECK(absl::IsFailedPrecondition(status));
      CHECK(absl::StrContains(status.message(), sent.view));
      CHECK(absl::StrContains(status.message(), "receives 4 float32"));
    }
    CHECK(comm->Barrier() == absl::OkStatus());
  }
}

TEST_CASE("ranks that meet over MPI use shared memory on one host and the fabric between hosts") {
  World world = MpiWorld();
  for (const bool one_host : {true, false}) {
    if (!one_host) world.host_id = absl::StrCat("pretended ", world.rank);
    const auto comm = Join(world, BackendPreference::kAuto, absl::Seconds(30));
    if (world.world_size > 1) CHECK(comm->backend() == (one_host ? "shm" : "fabric"));
    testing::GridOptions options;
    options.dtypes = {DType::kFloat32, DType::kBFloat16};
    CHECK(testing::CheckCollectives(*comm, options) == absl::OkStatus());
    CHECK(testing::CheckCollectives(*comm, {.counts = {11}, .dtypes = testing::kOtherTypes}) == absl::OkStatus());
  }
}

TEST_CASE("a rank that never makes the call runs the others into the deadline", "[lost]") {
  const World world = MpiWorld();
  const auto comm = Join(world, BackendPreference::kMpi, absl::Seconds(2));
  REQUIRE(comm->Barrier().ok());
  if (world.rank == 1) {
    absl::SleepFor(absl::Seconds(4));
    return;
  }
  const absl::Status status = comm->Barrier();
  CHECK(absl::IsDeadlineExceeded(status));
  std::printf("the others end with %s\n", status.ToString().c_str());
  std::fflush(stdout);
}

TEST_CASE("after a call of a part that did not end no call of MPI's is made in the process", "[given_up]") {
  const World world = MpiWorld();
  const auto comm = Join(world, BackendPreference::kMpi, absl::Seconds(world.rank == 0 ? 2 : 30));
  const auto part = comm->Split(0, 0).value();
  if (world.rank == 0) {
    float x[4] = {};
    CHECK(absl::IsDeadlineExceeded(part->Receive(x, 4, DType::kFloat32, 1)));
    CHECK(absl::IsDeadlineExceeded(CallMpi("a call", [] { return 0; })));
  }
  const absl::Status status = comm->Barrier();
  CHECK(absl::IsDeadlineExceeded(status));
  std::printf("rank %d: %s\n", world.rank, status.ToString().c_str());
  std::fflush(stdout);
}

TEST_CASE("a rank that does not come to a split runs the others into the deadline", "[unsplit]") {
  const World world = MpiWorld();
  const auto comm = Join(world, BackendPreference::kMpi, absl::Seconds(2));
  REQUIRE(comm->Barrier().ok());
  if (world.rank == 1) {  // tells its color, as a split does, and comes no further
    const int64_t mine[] = {0, 1};
    std::vector<int64_t> all(4);
    CHECK(comm->AllGather(mine, all.data(), 2, DType::kInt64).ok());
    absl::SleepFor(absl::Seconds(4));
    return;
  }
  const absl::Time start = absl::Now();
  const absl::Status status = comm->Split(0, 0).status();
  CHECK(absl::Now() - start < absl::Seconds(3.5));
  CHECK(absl::IsDeadlineExceeded(status));
  CHECK(absl::StrContains(comm->Barrier().message(), "MPI_Comm_split"));
  std::printf("rank 0 after %s: %s\n", absl::FormatDuration(absl::Now() - start).c_str(), status.ToString().c_str());
  std::fflush(stdout);
  absl::SleepFor(absl::Seconds(3));  // mpirun would end rank 1 in its test
}

TEST_CASE("ranks that make different calls over MPI get an error with both views", "[differ]") {
  const World world = MpiWorld();
  const auto comm = Join(world, BackendPreference::kMpi, absl::Seconds(10));
  float x[2] = {1, 1};
  const auto op = world.rank == 0 ? ReduceOp::kSum : ReduceOp::kMax;
  const absl::Status status = comm->AllReduce(x, x, 2, DType::kFloat32, op);
  CHECK(absl::IsFailedPrecondition(status));
  std::printf("rank %d: %s\n", world.rank, status.ToString().c_str());
  std::fflush(stdout);
}

TEST_CASE("in debug mode equal calls over MPI have their results, and different ones an error with both views",
          "[debug]") {
  const World world = MpiWorld();
  const auto comm = Join(world, BackendPreference::kMpi, absl::Seconds(30), /*debug=*/world.rank == 1);
  comm->SetErrorContext([] { return "step 3"; });  // which only the debug mode tells the others
  int64_t sum = 1;
  REQUIRE(comm->AllReduce(&sum, &sum, 1, DType::kInt64, ReduceOp::kSum).ok());
  REQUIRE(sum == world.world_size);
  const absl::Status status = comm->Broadcast(&sum, 1, DType::kInt64, world.rank);
  CHECK(absl::IsFailedPrecondition(status));
  std::printf("rank %d: %s\n", world.rank, status.ToString().c_str());
  std::fflush(stdout);
}

TEST_CASE("a rank that leaves before the others need it is named over MPI", "[left]") {
  const World world = MpiWorld();
  auto comm = Join(world, BackendPreference::kMpi, absl::Seconds(60));
  REQUIRE(comm->Barrier().ok());
  if (world.rank == 2) return comm.reset();
  const absl::Time start = absl::Now();
  const absl::Status status = comm->Barrier();
  CHECK(absl::Now() - start < absl::Seconds(5));
  CHECK(absl::IsUnavailable(status));
  std::printf("rank %d after %s: %s\n", world.rank, absl::FormatDuration(absl::Now() - start).c_str(),
              status.ToString().c_str());
  std::fflush(stdout);
}

// Rank 2 stops with `signal`; the others say within the heartbeat's time-out who is lost.
void LoseRankTwo(int signal) {
  World world = MpiWorld();
  SetIdentity({world.rank, world.world_size, world.host});
  CommunicatorOptions options;
  options.backend = BackendPreference::kMpi;
  options.timeout = absl::Seconds(60);
  options.heartbeat_timeout = absl::Seconds(2);
  absl::StatusOr<std::unique_ptr<Communicator>> comm = CreateCommunicator(world, options);
  REQUIRE(comm.ok());
  (*comm)->SetErrorContext([] { return "step 3"; });
  REQUIRE((*comm)->Barrier().ok());
  // Rank 2 is lost when the others are out of the barrier, which ends on one rank before it does on all.
  char here = 0;
  if (world.rank != 2) REQUIRE((*comm)->Send(&here, 1, DType::kUInt8, 2).ok());
  for (int peer = 0; world.rank == 2 && peer < world.world_size; ++peer) {
    if (peer != 2) REQUIRE((*comm)->Receive(&here, 1, DType::kUInt8, peer).ok());
  }
  const absl::Time start = absl::Now();
  if (world.rank == 2) {
    // What stands still is killed in the end, or mpirun would wait for it.
    const pid_t self = getpid();
    if (signal == SIGSTOP && fork() == 0) {
      absl::SleepFor(absl::Seconds(8));
      kill(self, SIGKILL);
      _exit(0);
    }
    kill(self, signal);
  }
  const absl::Status status = (*comm)->Barrier();
  CHECK(absl::Now() - start < absl::Seconds(7));
  CHECK(absl::IsUnavailable(status));
  INFO(status);
  for (const char* part : {"(step 3)", "rank 2 on ", "was lost"}) CHECK(absl::StrContains(status.message(), part));
  std::printf("rank %d after %s: %s\n", world.rank, absl::FormatDuration(absl::Now() - start).c_str(),
              status.ToString().c_str());
  std::fflush(stdout);
}

TEST_CASE("under mpirun a killed rank is named by the others", "[killed]") { LoseRankTwo(SIGKILL); }

TEST_CASE("under mpirun a stopped rank is named by the others", "[stopped]") { LoseRankTwo(SIGSTOP); }

TEST_CASE("a rank that never starts MPI does not keep the others waiting for ever", "[absent]") {
  const World world = MpiWorld();
  if (world.rank == 1) {
    absl::SleepFor(absl::Seconds(60));  // mpirun ends it as soon as rank 0 has given up
    return;
  }
  Join(world, BackendPreference::kMpi, absl::Seconds(2));
  FAIL("rank 0 did not wait for rank 1");
}

}  // namespace
}  // namespace distill
