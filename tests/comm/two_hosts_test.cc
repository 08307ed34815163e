// One rank of a job on two emulated hosts; cut_link.py starts them and cuts the link between them.
#include <cstdio>

#include "libdistill/comm/create.h"
#include "libdistill/core/identity.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("a rank behind a link that is cut is lost", "[.][two hosts]") {
  const absl::StatusOr<World> world = ReadWorld();
  INFO(world.status());
  REQUIRE(world.ok());
  SetIdentity({world->rank, world->world_size, world->host});
  CommunicatorOptions options;
  options.timeout = absl::Seconds(60);
  options.heartbeat_timeout = absl::Seconds(2);
  const auto comm = CreateCommunicator(*world, options);
  INFO(comm.status());
  REQUIRE(comm.ok());
  absl::Status status = (*comm)->Barrier();
  REQUIRE(status.ok());
  std::printf("ready over %s\n", std::string((*comm)->backend()).c_str());
  std::fflush(stdout);
  std::vector<float> data(1 << 18);
  while (status.ok()) {
    status = (*comm)->AllReduce(data.data(), data.data(), 1 << 18, DType::kFloat32, ReduceOp::kSum);
  }
  CHECK(absl::IsUnavailable(status));
  std::printf("%s\n", status.ToString().c_str());
}

}  // namespace
}  // namespace distill
