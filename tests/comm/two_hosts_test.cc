// One rank of a job on emulated hosts; two_hosts.py starts them, and loses one or the link between them, two_rails.py
// counts what each of their links carries.
#include <rdma/fi_rma.h>

#include <cstdio>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/identity.h"
#include "tests/comm/watch_fabric.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// How often something was written through the endpoint of each rail.
struct RailWrites {
  static inline std::map<const fid_ep*, int> times;
  static inline fi_ops_rma ops, real_ops;

  static void Watch(fid_ep& endpoint) {
    times[&endpoint] = 0;
    real_ops = ops = *endpoint.rma;
    ops.writedata = &Write;
    endpoint.rma = &ops;
  }

  static ssize_t Write(fid_ep* endpoint, const void* data, size_t bytes, void* descriptor, uint64_t notice,
                       fi_addr_t peer, uint64_t address, uint64_t key, void* context) {
    const ssize_t rc = real_ops.writedata(endpoint, data, bytes, descriptor, notice, peer, address, key, context);
    if (rc == 0) ++times[endpoint];
    return rc;
  }
};

TEST_CASE("sums over two rails are right", "[.][two rails]") {
  const absl::StatusOr<World> world = ReadWorld();
  INFO(world.status());
  REQUIRE(world.ok());
  SetIdentity({world->rank, world->world_size, world->host});
  REQUIRE(testing::WatchedFabric::Watch({.on_endpoint = &RailWrites::Watch}).ok());
  CommunicatorOptions options;
  options.timeout = absl::Seconds(60);
  const auto comm = CreateCommunicator(*world, options);
  INFO(comm.status());
  REQUIRE(comm.ok());
  std::printf("ready over %s\n", std::string((*comm)->backend()).c_str());
  for (const int64_t count : {int64_t{1}, int64_t{1009}, int64_t{4} << 20}) {
    const auto memory = (*comm)->Allocate(count * 8).value();
    auto* sum = reinterpret_cast<int64_t*>(memory->data());
    for (int64_t i = 0; i < count; ++i) sum[i] = i * (world->rank + 1);
    REQUIRE((*comm)->AllReduce(sum, sum, count, DType::kInt64, ReduceOp::kSum).ok());
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i) wrong += sum[i] != i * world->world_size * (world->world_size + 1) / 2;
    CHECK(wrong == 0);
  }
  std::printf("written through each rail:");
  for (const auto& [rail, times] : RailWrites::times) std::printf(" %d", times);
  std::printf("\n");
}

TEST_CASE("a rank on another host that is lost is named", "[.][two hosts]") {
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
  for (int step = 1; status.ok(); ++step) {
    (*comm)->SetErrorContext([step] { return absl::StrCat("step ", step); });
    status = (*comm)->AllReduce(data.data(), data.data(), 1 << 18, DType::kFloat32, ReduceOp::kSum);
  }
  CHECK(absl::IsUnavailable(status));
  std::printf("%s\n", status.ToString().c_str());
}

}  // namespace
}  // namespace distill
