#include "libdistill/run/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/comm/gpu.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/multiplies_bf16.h"
#include "libdistill/tensor/torch_cuda.h"
#include "libdistill/world/cores.h"
#include "libdistill/world/own_cores.h"

namespace distill {
namespace {

constexpr size_t kRecordBytes = 1024;  // of a rank's host and lists of cores

absl::StatusOr<std::vector<RankCores>> CoresOfAllRanks(Communicator& comm, const RankCores& own) {
  std::string mine = absl::StrCat(own.host_id, "\n", FormatCores(own.cores), "\n", FormatCores(own.near));
  if (mine.size() >= kRecordBytes) mine = own.host_id.substr(0, kRecordBytes / 2) + "\n\n";  // not known, then
  mine.resize(kRecordBytes, '\0');
  std::string all(kRecordBytes * static_cast<size_t>(comm.world_size()), '\0');
  DISTILL_RETURN_IF_ERROR(comm.AllGather(mine.data(), all.data(), kRecordBytes, DType::kUInt8));
  std::vector<RankCores> ranks;
  for (size_t begin = 0; begin < all.size(); begin += kRecordBytes) {
    std::vector<std::string> fields = absl::StrSplit(std::string(all.c_str() + begin), '\n');
    fields.resize(3);
    ranks.push_back({fields[0], ParseCores(fields[1]), ParseCores(fields[2])});
  }
  return ranks;
}

// What a launcher or taskset gave is not widened, also where it is badly chosen.
void WarnOfFarCores(const RankCores& mine, const std::string& gpu) {
  if (mine.near.empty() || mine.cores.empty() || mine.HasNear()) return;
  LogWarning(absl::StrCat("none of the cores ", FormatCores(mine.cores), " that this rank may run on is near its GPU ",
                          gpu, " (", FormatCores(mine.near), "): bind it to some of those, or not at all"));
}

std::string DescribeOwnCores(int rank, const std::vector<int>& cores, const std::string& gpu, int node) {
  const std::string of_node = node < 0 ? "" : absl::StrCat(" on NUMA node ", node);
  return absl::StrCat("the ranks of a host divide its cores: rank ", rank, " has ", FormatCores(cores),
                      gpu.empty() ? "" : absl::StrCat(", near its GPU ", gpu, of_node), ", for ", at::get_num_threads(),
                      at::get_num_threads() == 1 ? " thread" : " threads", " (pin_threads: false leaves it free)");
}

bool UserBindsThreads() {
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<c10::Device> ChooseDevice(DeviceChoice choice, const World& world) {
  if (choice == DeviceChoice::kCpu) return c10::Device(c10::kCPU);
  const int64_t gpus = torch::cuda::is_available() ? static_cast<int64_t>(torch::cuda::device_count()) : 0;
  if (gpus == 0) {
    if (choice == DeviceChoice::kAuto) return c10::Device(c10::kCPU);
    const std::string& why = WhyNoTorchCuda();
    return absl::InvalidArgumentError(absl::StrCat("device: cuda, but no GPU is usable on ", world.host, ": ",
                                                   why.empty() ? "LibTorch's CUDA part finds none" : why,
                                                   " (use device: cpu, or check nvidia-smi)"));
  }
  if (world.local_size > gpus && choice == DeviceChoice::kAuto) {
    LogWarning(absl::StrCat("device: auto takes the CPU: ", world.local_size, " ranks on ", world.host, ", which has ",
                            gpus, " GPUs (start one rank a GPU)"));
    return c10::Device(c10::kCPU);
  }
  const absl::Status age = CheckGpuAge(world.local_rank);
  if (!age.ok() && choice == DeviceChoice::kAuto) {
    LogWarning(absl::StrCat("device: auto takes the CPU: ", age.message()));
    return c10::Device(c10::kCPU);
  }
  if (world.local_size > gpus) {
    return absl::InvalidArgumentError(absl::StrCat("device: ", world.local_size, " ranks on ", world.host,
                                                   ", which has ", gpus, " GPUs: start one rank a GPU"));
  }
  DISTILL_RETURN_IF_ERROR(Annotate(age, "device: cuda"));
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(world.local_rank));
}

void WarnOfSlowType(c10::Device device, c10::ScalarType type) {
  if (type == c10::kHalf && device.is_cpu()) {
    LogWarning("fp16: true on a CPU, which computes in float16 very slowly: set bf16: auto instead");
  } else if (type == c10::kBFloat16 && !MultipliesBf16(device)) {
    LogWarning(
        "bf16: true on a machine without bfloat16 instructions, where products take about ten times as long as in "
        "float32: "
        "bf16: auto takes the faster one");
  }
}

void UseDeterministicAlgorithms() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // It would write every new tensor once more, to show reads of what nobody wrote.
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // of the sizes that cuBLAS's documentation names
}

void UseShareOfCores(const World& world) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;  // the user's word counts
  at::set_num_threads(ShareOfCores(world, ReadCores("")));
}

absl::Status UseOwnCores(Communicator& comm, const World& world, bool binds, const std::string& gpu,
                         const std::string& root) {
  if (comm.world_size() == 1 && gpu.empty()) return absl::OkStatus();
  const PciPlace place = FindPciPlace(gpu, root);
  DISTILL_ASSIGN_OR_RETURN(const std::vector<RankCores> all,
                           CoresOfAllRanks(comm, {world.host_id, AllowedCores(), place.cores}));
  if (!binds || UserBindsThreads()) return absl::OkStatus();
  const RankCores& mine = all[static_cast<size_t>(comm.rank())];
  WarnOfFarCores(mine, gpu);
  const OwnCores own = DivideCores(all, comm.rank(), root);
  const Cores limits = ReadCores("");
  const bool has_quota = limits.quota.has_value() && *limits.quota < limits.mine;
  if (has_quota) return absl::OkStatus();
  if (own.threads > 0 && std::getenv("OMP_NUM_THREADS") == nullptr) at::set_num_threads(own.threads);
  if (own.cores.empty()) return absl::OkStatus();
  if (const absl::Status bound = BindThread(own.cores); !bound.ok()) {
    LogWarning(absl::StrCat(bound.message(), "; threads stay where the kernel puts them"));
    return absl::OkStatus();
  }
  const std::string line = DescribeOwnCores(comm.rank(), own.cores, mine.HasNear() ? gpu : "", place.node);
  comm.rank() == 0 ? LogInfo(line) : LogDebug(line);
  return absl::OkStatus();
}

}  // namespace distill
