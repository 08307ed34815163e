#include "libdistill/comm/communicator.h"

#include <dlfcn.h>
#include <signal.h>

#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

CommunicatorOptions Over(BackendPreference backend, absl::Duration timeout = absl::Seconds(10)) {
  CommunicatorOptions options;
  options.backend = backend;
  options.timeout = timeout;
  return options;
}

TEST_CASE("a job of one rank needs nobody") {
  const auto comm = CreateCommunicator(World(), Over(BackendPreference::kAuto)).value();
  CHECK(comm->backend() == "alone");
  float in = 3;
  float out = 0;
  CHECK(comm->AllReduce(&in, &out, 1, DType::kFloat32, ReduceOp::kAverage).ok());
  CHECK(out == 3);
  CHECK(comm->Barrier().ok());
}

TEST_CASE("wrong arguments are refused, and the communicator stays poisoned with the first error") {
  float x = 0;
  const auto fresh = [] { return CreateAloneCommunicator(); };
  const auto refused = [](const absl::Status& status, const std::string& text) {
    return Failures({{0, true, 0, ExpectError(status, absl::StatusCode::kInvalidArgument, {text}), {}}});
  };
  CHECK(refused(fresh()->AllReduce(&x, &x, -1, DType::kFloat32, ReduceOp::kSum), "a count of -1") == "");
  CHECK(refused(fresh()->AllReduce(nullptr, &x, 1, DType::kFloat32, ReduceOp::kSum), "a null buffer") == "");
  CHECK(refused(fresh()->AllGather(&x, &x, std::numeric_limits<int64_t>::max() / 2, DType::kFloat32), "63 bits") == "");
  CHECK(refused(fresh()->Broadcast(&x, 1, DType::kFloat32, 1), "root 1 in a world of 1") == "");
  CHECK(refused(fresh()->AllReduce(&x, &x, 1, DType::kFloat32, ReduceOp::kSum, {true, nullptr}), "device memory") ==
        "");
  CHECK(fresh()->AllReduce(nullptr, nullptr, 0, DType::kFloat32, ReduceOp::kSum).ok());

  const auto comm = fresh();
  CHECK(comm->Barrier().ok());
  comm->SetErrorContext([] { return "step 17"; });
  const absl::Status first = comm->Broadcast(&x, 1, DType::kFloat32, 9);
  CHECK(refused(first, "broadcast number 2 over alone failed on rank 0 of 1 ranks (step 17): ") == "");
  CHECK(comm->Barrier() == first);
}

TEST_CASE("options that make no sense are refused by name") {
  CHECK_THAT(
      std::string(CreateCommunicator(World(), Over(static_cast<BackendPreference>(77))).status().message()),
      Catch::Contains("comm_backend: must be one of auto, shm, fabric, hierarchical, mpi, nccl, not 'the value 77'"));
  CHECK_THAT(
      std::string(CreateCommunicator(World(), Over(BackendPreference::kShm, absl::ZeroDuration())).status().message()),
      Catch::Contains("comm_timeout_seconds: must be above 0"));
  CommunicatorOptions options = Over(BackendPreference::kShm);
  options.heartbeat_timeout = absl::ZeroDuration();
  CHECK_THAT(std::string(CreateCommunicator(World(), options).status().message()),
             Catch::Contains("heartbeat_timeout_seconds: must be above 0"));
}

TEST_CASE("auto takes shared memory on one host, the fabric between hosts, and both where ranks share some hosts") {
  const auto outcomes = RunRanks(3, absl::Seconds(30), [](World world) -> absl::Status {
    setenv("FI_TCP_IFACE", "lo", 1);
    for (const int ranks_a_host : {3, 2, 1}) {
      world.host_id = absl::StrCat("pretended ", world.rank / ranks_a_host);
      DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, Over(BackendPreference::kAuto)));
      const std::string expected = ranks_a_host == 3 ? "shm" : ranks_a_host == 2 ? "shm+fabric" : "fabric";
      DISTILL_RETURN_IF_ERROR(Expect(comm->backend() == expected, std::string(comm->backend())));
      DISTILL_RETURN_IF_ERROR(comm->Barrier());
    }
    return ExpectError(CreateCommunicator(world, Over(BackendPreference::kShm)).status(),
                       absl::StatusCode::kInvalidArgument, {"comm_backend shm joins the ranks of one host"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("ranks that want different backends hear which") {
  const auto outcomes = RunRanks(2, absl::Seconds(30), [](const World& world) {
    return ExpectError(
        CreateCommunicator(world, Over(world.rank == 0 ? BackendPreference::kShm : BackendPreference::kFabric))
            .status(),
        absl::StatusCode::kFailedPrecondition,
        {"comm_backend differs: rank 0 on ", "has shm, rank 1 on ", "has fabric"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("one rank that cannot join stops all, with its reason") {
  const auto outcomes = RunRanks(3, absl::Seconds(30), [](const World& world) {
    if (world.rank == 1) setenv("DISTILL_FABRIC_PROVIDER", "carrier_pigeon", 1);
    return ExpectError(CreateCommunicator(world, Over(BackendPreference::kFabric)).status(),
                       absl::StatusCode::kUnavailable, {"rank 1 on ", "carrier_pigeon"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("ranks on different fabrics hear which, before any of them waits for the others", "[own_fabric]") {
  const auto outcomes = RunRanks(2, absl::Seconds(30), [](const World& world) {
    setenv("DISTILL_FABRIC_PROVIDER", world.rank == 0 ? "tcp" : "sockets", 1);
    return ExpectError(CreateCommunicator(world, Over(BackendPreference::kFabric)).status(),
                       absl::StatusCode::kFailedPrecondition,
                       {"different fabrics", "tcp;ofi_rxm on rank 0", "sockets on rank 1"});
  });
  CHECK(Failures(outcomes) == "");
  CHECK(outcomes[0].took < absl::Seconds(5));
}

TEST_CASE("NCCL is refused where the ranks compute on the CPU") {
  const auto outcomes = RunRanks(2, absl::Seconds(30), [](const World& world) {
    return ExpectError(CreateCommunicator(world, Over(BackendPreference::kNccl)).status(),
                       absl::StatusCode::kInvalidArgument, {"comm_backend nccl", "CPU"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("crash signals stay the program's when a fabric's libraries are loaded", "[own_fabric][unloaded]") {
  const auto outcomes = RunRanks(2, absl::Seconds(60), [](const World& world) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(Expect(dlopen("libfabric.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr, "loaded already"));
    struct sigaction ours = {};
    ours.sa_handler = [](int) {};
    struct sigaction crash_before = {};
    sigaction(SIGINT, &ours, nullptr);
    sigaction(SIGBUS, nullptr, &crash_before);
    DISTILL_RETURN_IF_ERROR(CreateCommunicator(world, Over(BackendPreference::kFabric)).status());
    struct sigaction interrupt = {};
    struct sigaction crash = {};
    sigaction(SIGINT, nullptr, &interrupt);
    sigaction(SIGBUS, nullptr, &crash);
    DISTILL_RETURN_IF_ERROR(Expect(interrupt.sa_handler == ours.sa_handler, "SIGINT was taken"));
    return Expect(crash.sa_handler == crash_before.sa_handler, "SIGBUS was taken");
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("MPI's backend is refused outside mpirun") {
  const auto outcomes = RunRanks(2, absl::Seconds(30), [](const World& world) {
    return ExpectError(CreateCommunicator(world, Over(BackendPreference::kMpi)).status(),
                       absl::StatusCode::kInvalidArgument, {"rank 0 on ", "comm_backend mpi", "mpirun"});
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
