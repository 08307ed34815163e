// All-reduce of float32 sums over a range of sizes: verified first, then timed; nccl-tests' columns.
//
//   distillrun -np 2 build/bin/bench_allreduce [--backend auto] [--sizes 1024,67108864]
//
// Prints a table on rank 0, and a line "JSON {...}" a size for bench/run. Bus bandwidth is S / t * 2 (n - 1) / n: what
// each rank has to move at least, whatever the algorithm (nccl-tests, doc/PERFORMANCE.md).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "bench/allreduce/signal.h"
#include "bench/allreduce/sweep.h"
#include "bench/arguments.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/world.h"

namespace distill {
namespace {

struct Timing {
  double min_us = 0, p50_us = 0, p99_us = 0;
  int64_t wrong = 0;
};

double Microseconds(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

// What rank `rank` contributes at i; sums are exact in float32.
float Input(int rank, int64_t i) { return static_cast<float>((i * 7 + rank * 3) % 61); }

int64_t CountWrong(absl::Span<const float> result, int world_size) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(result.size()); ++i) {
    float expected = 0;
    for (int rank = 0; rank < world_size; ++rank) expected += Input(rank, i);
    wrong += result[i] != expected;
  }
  return wrong;
}

// Two buffers of one size, anywhere or in registered memory.
class Buffers {
 public:
  static absl::StatusOr<Buffers> Create(Communicator& comm, int64_t bytes, bool registered) {
    Buffers made;
    made.count_ = bytes / static_cast<int64_t>(sizeof(float));
    if (registered) {
      DISTILL_ASSIGN_OR_RETURN(made.memory_, comm.Allocate(2 * bytes));
    } else {
      made.plain_.resize(2 * made.count_);
    }
    return made;
  }
  absl::Span<float> at(int which) {
    float* data = memory_ ? reinterpret_cast<float*>(memory_->data()) : plain_.data();
    return absl::MakeSpan(data + which * count_, count_);
  }

 private:
  int64_t count_ = 0;
  std::unique_ptr<CommMemory> memory_;
  std::vector<float> plain_;
};

absl::StatusOr<Timing> Measure(Communicator& comm, Buffers& buffers, bool in_place, int64_t total_bytes) {
  const absl::Span<float> send = buffers.at(0), receive = buffers.at(in_place ? 0 : 1);
  const int64_t count = static_cast<int64_t>(send.size()), bytes = count * static_cast<int64_t>(sizeof(float));
  for (int64_t i = 0; i < count; ++i) send[i] = Input(comm.rank(), i);
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(send.data(), receive.data(), count, DType::kFloat32, ReduceOp::kSum));
  Timing timing;
  timing.wrong = CountWrong(receive, comm.world_size());

  const int64_t iterations = std::clamp<int64_t>(total_bytes / bytes, 10, 1000);
  std::vector<double> times;
  for (int64_t i = 0; i < iterations + 3; ++i) {
    // New data each time, as after a backward pass. Neither this nor waiting for the slowest rank's data is timed.
    std::fill(send.begin(), send.end(), 1.0f);
    DISTILL_RETURN_IF_ERROR(comm.Barrier());
    const auto start = std::chrono::steady_clock::now();
    DISTILL_RETURN_IF_ERROR(comm.AllReduce(send.data(), receive.data(), count, DType::kFloat32, ReduceOp::kSum));
    if (i >= 3) times.push_back(Microseconds(start));
  }
  // Of each repetition the slowest rank's time.
  DISTILL_RETURN_IF_ERROR(
      comm.AllReduce(times.data(), times.data(), static_cast<int64_t>(times.size()), DType::kFloat64, ReduceOp::kMax));
  std::sort(times.begin(), times.end());
  timing.min_us = times.front();
  timing.p50_us = times[times.size() / 2];
  timing.p99_us = times[times.size() * 99 / 100];
  return timing;
}

// The least that the ranks of one host need beside their sweeps; between hosts the wire is the limit (bench/run).
absl::StatusOr<double> SignalUs(Communicator& comm) {
  if (comm.backend() != "shm") return 0;
  DISTILL_ASSIGN_OR_RETURN(const double seconds, SignalSeconds(comm));
  return seconds * 1e6;
}

// Gigabytes a second of bus bandwidth.
double BusBandwidth(int64_t bytes, double microseconds, int ranks) {
  return static_cast<double>(bytes) / microseconds / 1e3 * 2.0 * (ranks - 1) / ranks;
}

absl::Status BenchSize(Communicator& comm, int64_t bytes, bool registered, double signal_us, int64_t total_bytes) {
  DISTILL_RETURN_IF_ERROR(comm.Barrier());
  // All ranks at once, as in the collective, and at least one word from each of the others.
  const auto repeats = static_cast<int>(std::clamp<int64_t>(total_bytes / 2 / bytes, 10, 500));
  double sweep_us = SweepSeconds(bytes, comm.world_size(), repeats) * 1e6 + signal_us;
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(&sweep_us, &sweep_us, 1, DType::kFloat64, ReduceOp::kMin));
  DISTILL_ASSIGN_OR_RETURN(Buffers buffers, Buffers::Create(comm, bytes, registered));
  DISTILL_ASSIGN_OR_RETURN(const Timing out, Measure(comm, buffers, /*in_place=*/false, total_bytes));
  DISTILL_ASSIGN_OR_RETURN(const Timing in, Measure(comm, buffers, /*in_place=*/true, total_bytes));
  double wrong = static_cast<double>(out.wrong + in.wrong);
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(&wrong, &wrong, 1, DType::kFloat64, ReduceOp::kSum));
  if (comm.rank() == 0) {
    const int n = comm.world_size();
    std::printf("%12lld %12lld float32 sum %11.1f %8.2f %8.2f %6lld %11.1f %8.2f %8.2f %6lld %9.1f %9.1f %8.2f %8.2f\n",
                static_cast<long long>(bytes), static_cast<long long>(bytes / 4), out.p50_us,
                static_cast<double>(bytes) / out.p50_us / 1e3, BusBandwidth(bytes, out.p50_us, n),
                static_cast<long long>(out.wrong), in.p50_us, static_cast<double>(bytes) / in.p50_us / 1e3,
                BusBandwidth(bytes, in.p50_us, n), static_cast<long long>(in.wrong), in.min_us, in.p99_us,
                BusBandwidth(bytes, sweep_us, n), sweep_us / in.p50_us);
    std::printf(
        "JSON {\"backend\": \"%s\", \"kind\": \"%s\", \"ranks\": %d, \"bytes\": %lld, \"p50_us\": %.3f, \"busbw\": "
        "%.4f, \"limit_us\": %.3f, \"limit_busbw\": %.4f}\n",
        std::string(comm.backend()).c_str(), registered ? "registered" : "plain", n, static_cast<long long>(bytes),
        in.p50_us, BusBandwidth(bytes, in.p50_us, n), sweep_us, BusBandwidth(bytes, sweep_us, n));
    std::fflush(stdout);
  }
  if (wrong != 0) return absl::InternalError(absl::StrCat(wrong, " wrong elements at ", bytes, " bytes"));
  return absl::OkStatus();
}

absl::Status Bench(BackendPreference backend, const std::vector<int64_t>& sizes, int64_t total_bytes) {
  DISTILL_ASSIGN_OR_RETURN(const World world, ReadWorld());
  SetIdentity({.rank = world.rank, .world_size = world.world_size, .host = world.host});
  CommunicatorOptions options;
  options.backend = backend;
  options.timeout = absl::Seconds(60);
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> comm, CreateCommunicator(world, options));
  DISTILL_ASSIGN_OR_RETURN(const double signal_us, SignalUs(*comm));
  double copy_gbs = CopyBandwidth() / 1e9;  // of all ranks at once
  DISTILL_RETURN_IF_ERROR(comm->AllReduce(&copy_gbs, &copy_gbs, 1, DType::kFloat64, ReduceOp::kSum));
  if (comm->rank() == 0) {
    std::printf(
        "# all-reduce over %s, %d ranks; plain pointers, then registered memory; times in microseconds (p50), "
        "bandwidths in GB/s\n"
        "# out of place, then in place (with its min and p99), then the limit's busbw (the best of each rank's sweep "
        "over "
        "its slices,\n# and one word from each of the others) and the fraction of it that is reached in place; the "
        "cores "
        "copy %.1f GB/s together,\n# hearing from all others takes %.2f us\n"
        "%12s %12s %7s %3s %11s %8s %8s %6s %11s %8s %8s %6s %9s %9s %8s %8s\n",
        std::string(comm->backend()).c_str(), comm->world_size(), copy_gbs, signal_us, "size", "count", "type", "op",
        "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong", "min", "p99", "limit", "fraction");
  }
  for (const bool registered : {false, true}) {
    for (const int64_t bytes : sizes)
      DISTILL_RETURN_IF_ERROR(BenchSize(*comm, bytes, registered, signal_us, total_bytes));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments("All-reduce of float32 sums, verified, then timed");
  std::string backend = "auto";
  std::vector<int64_t> sizes = {1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28};
  arguments.Add("--backend", backend).OneOf({"auto", "shm", "fabric", "hierarchical", "mpi", "nccl"});
  arguments.Add("--sizes", sizes, "bytes").Between(int64_t{4}, int64_t{1} << 34);
  int64_t total_bytes = int64_t{1} << 28;
  arguments.Add("--total", total_bytes, "bytes to reduce at each size, in 10 to 1000 calls");
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  distill::BackendPreference asked = {};
  distill::ParseField(backend, asked);
  const absl::Status status = distill::Bench(asked, sizes, total_bytes);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
