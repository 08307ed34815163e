// The shortest job: the ranks meet, make one all-reduce, check it and end. bench/run start times it from outside.
//
//   distillrun -np 2 build/bin/bench_start --backend shm
#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "bench/arguments.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/world.h"

namespace distill {
namespace {

absl::Status Start(BackendPreference backend) {
  DISTILL_ASSIGN_OR_RETURN(const World world, ReadWorld());
  SetIdentity({.rank = world.rank, .world_size = world.world_size, .host = world.host});
  CommunicatorOptions options;
  options.backend = backend;
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> comm, CreateCommunicator(world, options));
  float ranks = 1;
  DISTILL_RETURN_IF_ERROR(comm->AllReduce(&ranks, &ranks, 1, DType::kFloat32, ReduceOp::kSum));
  if (ranks == static_cast<float>(world.world_size)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the sum over ", world.world_size, " ranks is ", ranks));
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments("From nothing to the first collective");
  std::string backend = "auto";
  arguments.Add("--backend", backend).OneOf({"auto", "shm", "fabric", "hierarchical", "mpi", "nccl"});
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  distill::BackendPreference asked = {};
  distill::ParseField(backend, asked);
  const absl::Status status = distill::Start(asked);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
