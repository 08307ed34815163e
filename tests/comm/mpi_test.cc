// Run by mpirun: each rank is one process of this program.
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/identity.h"
#include "tests/comm/collectives_grid.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

std::unique_ptr<Communicator> Join(World world, const std::string& backend, absl::Duration timeout) {
  SetIdentity({world.rank, world.world_size, world.host});
  CommunicatorOptions options;
  options.backend = backend;
  options.timeout = timeout;
  absl::StatusOr<std::unique_ptr<Communicator>> comm = CreateCommunicator(world, options);
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
  const auto comm = Join(world, "mpi", absl::Seconds(30));
  CHECK(comm->backend() == (world.world_size == 1 ? "alone" : "mpi"));
  CHECK(testing::CheckCollectives(*comm, {}) == absl::OkStatus());
  CHECK(testing::CheckLargeCollectives(*comm, 5 << 20) == absl::OkStatus());
  CHECK(testing::CheckSameBits(*comm) == absl::OkStatus());
  CHECK(Agree(*comm, absl::OkStatus()) == absl::OkStatus());
}

TEST_CASE("ranks that meet over MPI use shared memory on one host and the fabric between hosts") {
  World world = MpiWorld();
  for (const bool one_host : {true, false}) {
    if (!one_host) world.host_id = absl::StrCat("pretended ", world.rank);
    const auto comm = Join(world, "auto", absl::Seconds(30));
    if (world.world_size > 1) CHECK(comm->backend() == (one_host ? "shm" : "fabric"));
    testing::GridOptions options;
    options.dtypes = {DType::kFloat32, DType::kBFloat16};
    CHECK(testing::CheckCollectives(*comm, options) == absl::OkStatus());
  }
}

TEST_CASE("a rank that never makes the call runs the others into the deadline", "[lost]") {
  const World world = MpiWorld();
  const auto comm = Join(world, "mpi", absl::Seconds(2));
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

TEST_CASE("a rank that never starts MPI does not keep the others waiting for ever", "[absent]") {
  const World world = MpiWorld();
  if (world.rank == 1) {
    absl::SleepFor(absl::Seconds(60));  // mpirun ends it as soon as rank 0 has given up
    return;
  }
  Join(world, "mpi", absl::Seconds(2));
  FAIL("rank 0 did not wait for rank 1");
}

}  // namespace
}  // namespace distill
