// Every collective over a range of sizes: verified first, then timed.
//
//   distillrun -np 4 build/bin/bench_collectives [--operations all-reduce,barrier] [--sizes 1024,65536] [--type
//   bfloat16]
//
// Prints a table on rank 0, and a line "JSON {...}" for each operation and size for bench/run. Sizes are nccl-tests':
// of what all ranks end with or start from together where each has a block of it (reduce-scatter, all-gather,
// all-to-all), else of one rank's data. DISTILL_COMM_ALGORITHM takes one algorithm for all sizes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/arguments.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/world.h"

namespace distill {
namespace {

// What rank `rank` contributes at i: sums over all ranks are exact in bfloat16.
float Input(int ranks, int rank, int64_t i) {
  return static_cast<float>((i * 7 + rank * 3) % std::max(1, 256 / ranks));
}

float Sum(int ranks, int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += Input(ranks, rank, i);
  return sum;
}

// One call's buffers.
struct Data {
  char* send;
  char* receive;
  int64_t count;
  DType type;
};

struct Operation {
  const char* name;
  bool in_blocks;  // a size is of the blocks of all ranks, `count` elements each
  absl::Status (*call)(Communicator& comm, const Data& data);
  // Of element i of what rank `me` of n receives, if it receives anything.
  float (*expected)(int me, int n, int64_t count, int64_t i);
  // How many elements of `receive` are to be looked at.
  int64_t (*received)(int me, int n, int64_t count);
};

int64_t Whole(int, int, int64_t count) { return count; }
int64_t Blocks(int, int n, int64_t count) { return n * count; }
float SumOf(int, int n, int64_t, int64_t i) { return Sum(n, i); }
float FromRoot(int, int n, int64_t, int64_t i) { return Input(n, 0, i); }

const Operation kOperations[] = {
    {"all-reduce", false,
     [](Communicator& c, const Data& d) { return c.AllReduce(d.send, d.receive, d.count, d.type, ReduceOp::kSum); },
     SumOf, Whole},
    {"reduce-scatter", true,
     [](Communicator& c, const Data& d) { return c.ReduceScatter(d.send, d.receive, d.count, d.type, ReduceOp::kSum); },
     [](int me, int n, int64_t count, int64_t i) { return Sum(n, me * count + i); }, Whole},
    {"all-gather", true, [](Communicator& c, const Data& d) { return c.AllGather(d.send, d.receive, d.count, d.type); },
     [](int, int n, int64_t count, int64_t i) { return Input(n, static_cast<int>(i / count), i % count); }, Blocks},
    {"broadcast", false,
     [](Communicator& c, const Data& d) { return c.Broadcast(c.rank() == 0 ? d.send : d.receive, d.count, d.type, 0); },
     FromRoot, [](int me, int, int64_t count) { return me == 0 ? 0 : count; }},
    {"reduce", false,
     [](Communicator& c, const Data& d) { return c.Reduce(d.send, d.receive, d.count, d.type, ReduceOp::kSum, 0); },
     SumOf, [](int me, int, int64_t count) { return me == 0 ? count : 0; }},
    {"all-to-all", true, [](Communicator& c, const Data& d) { return c.AllToAll(d.send, d.receive, d.count, d.type); },
     [](int me, int n, int64_t count, int64_t i) {
       return Input(n, static_cast<int>(i / count), me * count + i % count);
     },
     Blocks},
    {"send", false,  // from the first rank to the last
     [](Communicator& c, const Data& d) {
       if (c.rank() == 0) return c.Send(d.send, d.count, d.type, c.world_size() - 1);
       return c.rank() == c.world_size() - 1 ? c.Receive(d.receive, d.count, d.type, 0) : absl::OkStatus();
     },
     FromRoot, [](int me, int n, int64_t count) { return me == n - 1 ? count : 0; }},
    {"barrier", false, [](Communicator& c, const Data&) { return c.Barrier(); }, SumOf,
     [](int, int, int64_t) { return int64_t{0}; }},
};

// Elements that bfloat16 holds exactly: its bits are the upper half of a float32's.
void Store(const Data& data, int64_t i, float value) {
  if (data.type == DType::kFloat32) {
    std::memcpy(data.send + i * 4, &value, 4);
  } else {
    std::memcpy(data.send + i * 2, reinterpret_cast<const char*>(&value) + 2, 2);
  }
}

float Load(const Data& data, int64_t i) {
  float value = 0;
  if (data.type == DType::kFloat32) {
    std::memcpy(&value, data.receive + i * 4, 4);
  } else {
    std::memcpy(reinterpret_cast<char*>(&value) + 2, data.receive + i * 2, 2);
  }
  return value;
}

double MicrosecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

absl::Status Verify(const Communicator& comm, const Operation& operation, const Data& data) {
  const int me = comm.rank(), n = comm.world_size();
  for (int64_t i = 0; i < operation.received(me, n, data.count); ++i) {
    const float expected = operation.expected(me, n, data.count, i);
    if (Load(data, i) == expected) continue;
    return absl::InternalError(
        absl::StrCat(operation.name, ": element ", i, " is ", Load(data, i), " instead of ", expected));
  }
  return absl::OkStatus();
}

// The median of the slowest rank's times, in microseconds.
absl::StatusOr<double> Measure(Communicator& comm, const Operation& operation, int64_t bytes, DType type,
                               int64_t total_bytes) {
  constexpr int64_t kWarmUp = 3;
  const int64_t n = comm.world_size();
  const int64_t all = std::max<int64_t>(n, bytes / SizeOf(type));
  std::vector<char> send(static_cast<size_t>(all * SizeOf(type))), receive(send.size());
  const Data data = {send.data(), receive.data(), operation.in_blocks ? all / n : all, type};
  for (int64_t i = 0; i < all; ++i) Store(data, i, Input(comm.world_size(), comm.rank(), i));
  DISTILL_RETURN_IF_ERROR(operation.call(comm, data));
  DISTILL_RETURN_IF_ERROR(Verify(comm, operation, data));
  const int64_t iterations = std::clamp<int64_t>(total_bytes / std::max<int64_t>(1, bytes), 7, 300);
  std::vector<double> times;
  for (int64_t i = 0; i < iterations + kWarmUp; ++i) {
    std::fill(send.begin(), send.end(), char{0});  // new data, as the ranks of a job have them; not timed
    DISTILL_RETURN_IF_ERROR(comm.Barrier());
    const auto start = std::chrono::steady_clock::now();
    DISTILL_RETURN_IF_ERROR(operation.call(comm, data));
    if (i >= kWarmUp) times.push_back(MicrosecondsSince(start));
  }
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(times.data(), times.data(), iterations, DType::kFloat64, ReduceOp::kMax));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

absl::Status Bench(const std::vector<std::string>& names, const std::vector<int64_t>& sizes,
                   const std::string& type_name, int64_t total_bytes) {
  const DType type = type_name == "float32" ? DType::kFloat32 : DType::kBFloat16;
  DISTILL_ASSIGN_OR_RETURN(const World world, ReadWorld());
  SetIdentity({.rank = world.rank, .world_size = world.world_size, .host = world.host});
  CommunicatorOptions options;
  options.timeout = absl::Seconds(60);
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> comm, CreateCommunicator(world, options));
  const std::string backend(comm->backend());
  if (world.rank == 0) {
    std::printf("# %d ranks over %s, %s, plain pointers, microseconds (p50 of the slowest rank's)\n", world.world_size,
                backend.c_str(), type_name.c_str());
  }
  for (const Operation& operation : kOperations) {
    if (std::find(names.begin(), names.end(), operation.name) == names.end()) continue;
    const bool has_size = operation.name != std::string("barrier");
    for (const int64_t bytes : has_size ? sizes : std::vector<int64_t>{0}) {
      DISTILL_ASSIGN_OR_RETURN(const double microseconds, Measure(*comm, operation, bytes, type, total_bytes));
      if (world.rank != 0) continue;
      std::printf("%-15s %12lld %12.1f us\n", operation.name, static_cast<long long>(bytes), microseconds);
      std::printf(
          "JSON {\"operation\": \"%s\", \"backend\": \"%s\", \"ranks\": %d, \"bytes\": %lld, \"p50_us\": %.3f}\n",
          operation.name, backend.c_str(), world.world_size, static_cast<long long>(bytes), microseconds);
      std::fflush(stdout);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments("Every collective, verified, then timed");
  std::vector<std::string> names, known;
  for (const distill::Operation& operation : distill::kOperations) known.push_back(operation.name);
  arguments.Add("--operations", names, "which (default: all)").OneOf(known);
  std::vector<int64_t> sizes = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24};
  arguments.Add("--sizes", sizes, "bytes").Between(int64_t{4}, int64_t{1} << 34);
  int64_t total_bytes = int64_t{1} << 26;
  arguments.Add("--total", total_bytes, "bytes to move at each size, in 7 to 300 calls");
  std::string type = "float32";
  arguments.Add("--type", type, "of the elements").OneOf({"float32", "bfloat16"});
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  const absl::Status status = distill::Bench(names.empty() ? known : names, sizes, type, total_bytes);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
