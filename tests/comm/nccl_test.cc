// The grid of collectives over NCCL, alone and inside the hosts of two levels, on buffers in device memory. Ranks are
// forks of a process in which CUDA has never started, because a fork could not use it afterwards. What one GPU is
// enough for, what wants two, and what wants a fabric that carries device memory are three entries of CTest, so that
// what this machine cannot run is reported as skipped.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/backend.h"
#include "libdistill/comm/create.h"
#include "libdistill/comm/device_memory.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/collectives_grid.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

absl::Status Cuda(const char* what, cudaError_t code) {
  if (code == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorString(code)));
}

// Device memory with a copy of `bytes` of host memory, one element off its natural place, as the grid's buffers are.
class DeviceCopy {
 public:
  DeviceCopy() = default;
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  ~DeviceCopy() { cudaFree(memory_); }

  absl::Status Create(const char* host, int64_t bytes, DType dtype) {
    offset_ = SizeOf(dtype);
    DISTILL_RETURN_IF_ERROR(Cuda("cudaMalloc", cudaMalloc(&memory_, static_cast<size_t>(bytes + offset_))));
    return Cuda("copying in", cudaMemcpy(data(), host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice));
  }
  char* data() const { return static_cast<char*>(memory_) + offset_; }

 private:
  void* memory_ = nullptr;
  int64_t offset_ = 0;
};

// Gives every buffer to `nccl` in device memory, on a stream; what is in place here is in place there.
class OnDevice : public CommBackend {
 public:
  OnDevice(Communicator& nccl, cudaStream_t stream)
      : CommBackend(nccl.rank(), nccl.world_size()),
        nccl_(static_cast<CommBackend&>(nccl)),  // as every communicator is one
        placement_{true, stream} {}
  absl::string_view backend() const override { return nccl_.backend(); }

 protected:
  absl::Status Execute(const CommCall& call) override {
    if (call.operation == CommOperation::kBarrier) return nccl_.Run(call);
    const int64_t in_bytes = call.input == nullptr ? 0 : call.input_blocks(world_size()) * call.bytes();
    const int64_t out_bytes = call.output == nullptr ? 0 : call.output_blocks(world_size()) * call.bytes();
    const char* in = in_bytes > 0 ? call.in() : call.out();
    char* out = out_bytes > 0 ? call.out() : const_cast<char*>(in);
    const bool in_place = in < out + out_bytes && out < in + in_bytes;
    const char* begin = in_place ? std::min<const char*>(in, out) : in;
    const char* end = in_place ? std::max<const char*>(in + in_bytes, out + out_bytes) : in + in_bytes;
    DeviceCopy first;
    DeviceCopy second;
    DISTILL_RETURN_IF_ERROR(first.Create(begin, end - begin, call.dtype));
    if (!in_place) DISTILL_RETURN_IF_ERROR(second.Create(out, out_bytes, call.dtype));
    CommCall there = call;
    there.placement = placement_;
    char* device_out = in_place ? first.data() + (out - begin) : second.data();
    there.input = call.input == nullptr ? nullptr : first.data() + (in - begin);
    there.output = call.output == nullptr ? nullptr : device_out;
    DISTILL_RETURN_IF_ERROR(nccl_.Run(there));
    return Cuda("copying out", cudaMemcpy(out, device_out, static_cast<size_t>(out_bytes), cudaMemcpyDeviceToHost));
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override {
    return nccl_.Split(part.color, part.key);
  }

 private:
  CommBackend& nccl_;
  const Placement placement_;
};

// Asked in a child, since asking starts CUDA.
int CountGpus() {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(cudaGetDeviceCount(&count) == cudaSuccess ? count : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

// Prints why not; CTest looks for that.
bool HasGpus(int wanted) {
  const int gpus = CountGpus();
  if (gpus >= wanted) return true;
  std::printf("skipped: this wants %d GPU%s, NCCL's ranks each their own, and there are %d here\n", wanted,
              wanted == 1 ? "" : "s", gpus);
  return false;
}

// Memory of Allocate on the GPU: zeroed, and a buffer of calls.
absl::Status SumInAllocated(Communicator& comm, cudaStream_t stream) {
  constexpr int64_t kCount = 1'000'003;
  const Placement placement = {true, stream};
  DISTILL_ASSIGN_OR_RETURN(const auto memory, comm.Allocate(kCount * 4, placement));
  std::vector<float> host(kCount);
  const size_t bytes = kCount * sizeof(float);
  DISTILL_RETURN_IF_ERROR(Cuda("copying out", cudaMemcpy(host.data(), memory->data(), bytes, cudaMemcpyDeviceToHost)));
  for (const float x : host) DISTILL_RETURN_IF_ERROR(testing::Expect(x == 0, "new memory is not zero"));
  for (int64_t i = 0; i < kCount; ++i) host[static_cast<size_t>(i)] = static_cast<float>(i % 7 + comm.rank());
  DISTILL_RETURN_IF_ERROR(Cuda("copying in", cudaMemcpy(memory->data(), host.data(), bytes, cudaMemcpyHostToDevice)));
  DISTILL_RETURN_IF_ERROR(
      comm.AllReduce(memory->data(), memory->data(), kCount, DType::kFloat32, ReduceOp::kSum, placement));
  DISTILL_RETURN_IF_ERROR(Cuda("copying out", cudaMemcpy(host.data(), memory->data(), bytes, cudaMemcpyDeviceToHost)));
  const int n = comm.world_size();
  for (int64_t i = 0; i < kCount; ++i) {
    const auto expected = static_cast<float>(n * (i % 7) + n * (n - 1) / 2);
    DISTILL_RETURN_IF_ERROR(
        testing::Expect(host[static_cast<size_t>(i)] == expected, absl::StrCat("a wrong sum at ", i)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> Join(const World& world, int gpu, BackendPreference asked) {
  DISTILL_RETURN_IF_ERROR(Cuda("cudaSetDevice", cudaSetDevice(gpu)));
  CommunicatorOptions options;
  options.backend = asked;
  options.timeout = absl::Seconds(60);
  options.device_index = gpu;
  return CreateCommunicator(world, options);
}

absl::Status WholeGrid(const World& world, int gpu, BackendPreference asked, const std::string& expected) {
  DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, gpu, asked));
  cudaStream_t stream = nullptr;
  DISTILL_RETURN_IF_ERROR(Cuda("cudaStreamCreate", cudaStreamCreate(&stream)));
  DISTILL_RETURN_IF_ERROR(testing::Expect(comm->backend() == expected, "over another backend"));
  DISTILL_RETURN_IF_ERROR(testing::CheckCollectives(*comm, {.counts = {0, 1009}}));  // host memory goes round NCCL
  OnDevice on_device(*comm, stream);
  DISTILL_RETURN_IF_ERROR(testing::CheckCollectives(on_device, {}));
  DISTILL_RETURN_IF_ERROR(testing::CheckLargeCollectives(on_device, 5 << 20));
  DISTILL_RETURN_IF_ERROR(testing::CheckSameBits(on_device));
  DISTILL_RETURN_IF_ERROR(SumInAllocated(*comm, stream));
  // Waiting leaves nothing behind that the next to ask would take for an error of its own.
  return Cuda("what calls left behind", cudaGetLastError());
}

// Random bits that are no NaN: device arithmetic against the CPU's.
absl::Status CompareArithmetic() {
  constexpr int64_t kCount = 70'001;
  DISTILL_ASSIGN_OR_RETURN(const auto device, DeviceMemory::Open(0, absl::Seconds(20)));
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt32,
                            DType::kInt64, DType::kUInt8}) {
    const size_t bytes = static_cast<size_t>(kCount * SizeOf(dtype));
    std::vector<std::vector<char>> host(3, std::vector<char>(bytes));
    std::vector<const void*> sources;
    std::vector<const void*> device_sources;
    std::vector<std::unique_ptr<CommMemory>> memory;
    for (size_t s = 0; s < host.size(); ++s) {
      for (size_t i = 0; i < bytes; ++i) host[s][i] = static_cast<char>((i * 37 + s * 11) % 59);
      DISTILL_ASSIGN_OR_RETURN(memory.emplace_back(), device->Allocate(static_cast<int64_t>(bytes)));
      DISTILL_RETURN_IF_ERROR(device->Copy(memory[s]->data(), host[s].data(), static_cast<int64_t>(bytes), nullptr));
      sources.push_back(host[s].data());
      device_sources.push_back(memory[s]->data());
    }
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct, ReduceOp::kAverage}) {
      std::vector<char> expected(bytes);
      std::vector<char> got(bytes);
      DISTILL_ASSIGN_OR_RETURN(const auto out, device->Allocate(static_cast<int64_t>(bytes)));
      const int divisor = op == ReduceOp::kAverage ? 3 : 1;
      Reduce(expected.data(), sources.data(), 3, kCount, dtype, op, divisor);
      DISTILL_RETURN_IF_ERROR(device->Reduce(out->data(), device_sources.data(), 3, kCount, dtype, op, divisor));
      DISTILL_RETURN_IF_ERROR(device->AwaitNetwork());
      DISTILL_RETURN_IF_ERROR(device->BeginCopy(0, got.data(), out->data(), static_cast<int64_t>(bytes)));
      DISTILL_RETURN_IF_ERROR(device->AwaitCopy(0));
      DISTILL_RETURN_IF_ERROR(testing::Expect(got == expected, absl::StrCat(NameOf(dtype), ", ", NameOf(op))));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void CheckGrid(int ranks) {
  CHECK(testing::Failures(testing::RunRanks(ranks, absl::Seconds(120), [](const World& world) {
          return WholeGrid(world, world.rank, BackendPreference::kNccl, "nccl");
        })) == "");
}

void CheckGridInTwoLevels(int ranks_a_host) {
  const auto outcomes = testing::RunRanks(2 * ranks_a_host, absl::Seconds(240), [&](World world) {
    setenv("FI_TCP_IFACE", "lo", 1);
    world.host_id = absl::StrCat("pretended ", world.rank / ranks_a_host);
    return WholeGrid(world, world.rank % ranks_a_host, BackendPreference::kHierarchical, "nccl+fabric");
  });
  CHECK(testing::Failures(outcomes) == "");
}

TEST_CASE("every collective of one rank is exact over NCCL, in device memory and on a stream", "[one_gpu]") {
  if (HasGpus(1)) CheckGrid(1);
}

TEST_CASE("every collective of two ranks is exact over NCCL, in device memory and on a stream", "[two_gpus]") {
  if (HasGpus(2)) CheckGrid(2);
}

TEST_CASE("every collective of as many ranks as there are GPUs is exact over NCCL", "[all_gpus]") {
  if (HasGpus(3)) CheckGrid(CountGpus());
}

TEST_CASE("a GPU adds to the bits that the CPU does", "[one_gpu]") {
  if (!HasGpus(1)) return;
  CHECK(testing::Failures(testing::RunRanks(1, absl::Seconds(60), [](const World&) { return CompareArithmetic(); })) ==
        "");
}

TEST_CASE("a rank that is killed ends the others' calls on device memory, by name", "[two_gpus]") {
  if (!HasGpus(2)) return;
  const auto outcomes = testing::RunRanks(2, absl::Seconds(60), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, world.rank, BackendPreference::kNccl));
    const Placement placement = {.on_device = true};
    DISTILL_ASSIGN_OR_RETURN(const auto memory, comm->Allocate(4 << 20, placement));
    const auto sum = [&] {
      return comm->AllReduce(memory->data(), memory->data(), 1 << 20, DType::kFloat32, ReduceOp::kSum, placement);
    };
    DISTILL_RETURN_IF_ERROR(sum());
    DISTILL_RETURN_IF_ERROR(testing::AwaitAllRanks());
    if (world.rank == 1) raise(SIGKILL);
    return testing::ExpectError(sum(), absl::StatusCode::kUnavailable, {"all-reduce number", "rank 1"});
  });
  CHECK(outcomes[0].status.ToString() == "OK");
  CHECK(outcomes[0].took < absl::Seconds(30));
}

TEST_CASE("every collective is exact in two levels with a rank in NCCL inside, as on two hosts", "[one_gpu]") {
  if (HasGpus(1)) CheckGridInTwoLevels(1);
}

TEST_CASE("every collective is exact in two levels with two ranks in NCCL inside, as on two hosts", "[two_gpus]") {
  if (HasGpus(2)) CheckGridInTwoLevels(2);
}

// tcp, as here, cannot read a GPU's memory; shm can, where libfabric was built with CUDA.
TEST_CASE("every collective is exact in two levels where the fabric carries device memory itself", "[hmem]") {
  if (!HasGpus(1)) return;
  const auto outcomes = testing::RunRanks(2, absl::Seconds(240), [&](World world) -> absl::Status {
    setenv("FI_TCP_IFACE", "lo", 1);
    setenv("DISTILL_FABRIC_PROVIDER", "shm", 1);
    setenv("DISTILL_FABRIC_HMEM", "1", 1);
    world.host_id = absl::StrCat("pretended ", world.rank);
    const absl::Status status = WholeGrid(world, 0, BackendPreference::kHierarchical, "nccl+fabric");
    if (!absl::StrContains(status.message(), "the fabric cannot carry device memory")) return status;
    if (world.rank == 0) std::printf("skipped: %s\n", std::string(status.message()).c_str());
    std::fflush(stdout);
    return absl::OkStatus();
  });
  CHECK(testing::Failures(outcomes) == "");
}

}  // namespace distill
