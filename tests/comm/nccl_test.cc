// The grid of collectives over NCCL, alone and inside the hosts of two levels, on buffers in device memory. Ranks are
// forks of a process in which CUDA has never started, because a fork could not use it afterwards. Without a GPU the
// test says that it skips.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
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
class OnDevice : public Communicator {
 public:
  OnDevice(Communicator& nccl, cudaStream_t stream)
      : Communicator(nccl.rank(), nccl.world_size()), nccl_(nccl), placement_{true, stream} {}
  absl::string_view backend() const override { return nccl_.backend(); }

 protected:
  absl::Status DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                           Placement) override {
    return Staged(send, count, receive, count, dtype,
                  [&](const char* in, char* out) { return nccl_.AllReduce(in, out, count, dtype, op, placement_); });
  }
  absl::Status DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                               Placement) override {
    return Staged(send, world_size() * count, receive, count, dtype, [&](const char* in, char* out) {
      return nccl_.ReduceScatter(in, out, count, dtype, op, placement_);
    });
  }
  absl::Status DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) override {
    return Staged(send, count, receive, world_size() * count, dtype,
                  [&](const char* in, char* out) { return nccl_.AllGather(in, out, count, dtype, placement_); });
  }
  absl::Status DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement) override {
    return Staged(buffer, count, buffer, count, dtype,
                  [&](const char*, char* out) { return nccl_.Broadcast(out, count, dtype, root, placement_); });
  }
  absl::Status DoReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op, int root,
                        Placement) override {
    const bool takes = rank() == root;
    return Staged(send, count, takes ? receive : const_cast<void*>(send), takes ? count : 0, dtype,
                  [&](const char* in, char* out) { return nccl_.Reduce(in, out, count, dtype, op, root, placement_); });
  }
  absl::Status DoAllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement) override {
    return Staged(send, world_size() * count, receive, world_size() * count, dtype,
                  [&](const char* in, char* out) { return nccl_.AllToAll(in, out, count, dtype, placement_); });
  }
  absl::Status DoBarrier() override { return nccl_.Barrier(); }
  absl::Status DoSend(const void* data, int64_t count, DType dtype, int peer, Placement) override {
    return Staged(data, count, const_cast<void*>(data), 0, dtype,
                  [&](const char* in, char*) { return nccl_.Send(in, count, dtype, peer, placement_); });
  }
  absl::Status DoReceive(void* data, int64_t count, DType dtype, int peer, Placement) override {
    return Staged(data, count, data, count, dtype,
                  [&](const char*, char* out) { return nccl_.Receive(out, count, dtype, peer, placement_); });
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override {
    return nccl_.Split(part.color, part.key);
  }

 private:
  absl::Status Staged(const void* send, int64_t send_count, void* receive, int64_t receive_count, DType dtype,
                      absl::FunctionRef<absl::Status(const char*, char*)> call) const {
    const char* in = static_cast<const char*>(send);
    char* out = static_cast<char*>(receive);
    const char* in_end = in + send_count * SizeOf(dtype);
    const char* out_end = out + receive_count * SizeOf(dtype);
    const bool in_place = in < out_end && out < in_end;
    const char* begin = in_place ? std::min<const char*>(in, out) : in;
    DeviceCopy first;
    DeviceCopy second;
    DISTILL_RETURN_IF_ERROR(first.Create(begin, (in_place ? std::max(in_end, out_end) : in_end) - begin, dtype));
    if (!in_place) DISTILL_RETURN_IF_ERROR(second.Create(out, out_end - out, dtype));
    char* device_out = in_place ? first.data() + (out - begin) : second.data();
    DISTILL_RETURN_IF_ERROR(call(first.data() + (in - begin), device_out));
    return Cuda("copying out", cudaMemcpy(out, device_out, static_cast<size_t>(out_end - out), cudaMemcpyDeviceToHost));
  }

  Communicator& nccl_;
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

absl::Status WholeGrid(const World& world, int gpu, const std::string& asked, const std::string& expected) {
  DISTILL_RETURN_IF_ERROR(Cuda("cudaSetDevice", cudaSetDevice(gpu)));
  cudaStream_t stream = nullptr;
  DISTILL_RETURN_IF_ERROR(Cuda("cudaStreamCreate", cudaStreamCreate(&stream)));
  CommunicatorOptions options;
  options.backend = asked;
  options.timeout = absl::Seconds(60);
  options.device_index = gpu;
  DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, options));
  DISTILL_RETURN_IF_ERROR(testing::Expect(comm->backend() == expected, "over another backend"));
  DISTILL_RETURN_IF_ERROR(testing::CheckCollectives(*comm, {.counts = {0, 1009}}));  // host memory goes round NCCL
  OnDevice on_device(*comm, stream);
  DISTILL_RETURN_IF_ERROR(testing::CheckCollectives(on_device, {}));
  return testing::CheckLargeCollectives(on_device, 5 << 20);
}

}  // namespace

TEST_CASE("every collective is exact over NCCL, in device memory and on a stream") {
  const int gpus = CountGpus();
  if (gpus == 0) std::printf("skipped: no GPU here\n");
  if (gpus == 1) std::printf("two ranks are left out: NCCL wants a GPU for each, and there is one here\n");
  for (int ranks = 1; ranks <= std::min(gpus, 2); ++ranks) {
    CHECK(testing::Failures(testing::RunRanks(ranks, absl::Seconds(120), [](const World& world) {
            return WholeGrid(world, world.rank, "nccl", "nccl");
          })) == "");
  }
}

TEST_CASE("every collective is exact in two levels with NCCL inside, between ranks that play two hosts") {
  const int gpus = CountGpus();
  if (gpus == 0) std::printf("skipped: no GPU here\n");
  if (gpus == 1) std::printf("two ranks a host are left out: NCCL wants a GPU for each, and there is one here\n");
  for (int ranks_a_host = 1; ranks_a_host <= std::min(gpus, 2); ++ranks_a_host) {
    const auto outcomes = testing::RunRanks(2 * ranks_a_host, absl::Seconds(240), [&](World world) {
      setenv("FI_TCP_IFACE", "lo", 1);
      world.host_id = absl::StrCat("pretended ", world.rank / ranks_a_host);
      return WholeGrid(world, world.rank % ranks_a_host, "hierarchical", "nccl+fabric");
    });
    CHECK(testing::Failures(outcomes) == "");
  }
}

}  // namespace distill
