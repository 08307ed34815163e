// Bound by memory: each kernel reads its rows once, or a second time out of the caches, and writes them once, in groups
// of 16 bytes a thread (of a norm's rows, of four elements) where rows are aligned for it, and else one by one.
#include <cuda_runtime_api.h>

#include <type_traits>

#include "libdistill/nn/layer_sweep_device.cuh"

namespace distill {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
// A row of at most so many elements is one warp's, of more a whole block's.
constexpr int64_t kMostOfWarp = 1024;
// Sums in the memory that a block shares, of which there are 48 KiB for all. Those of wider rows lie in the device's.
constexpr int64_t kMostShared = 11 << 10;
constexpr int64_t kMostParts = 512;
constexpr int kNormWide = 4;

// The same value on every thread of the team that has a row, added up in an order that does not depend on anything.
template <int kTeam>
__device__ float OverTeam(float mine) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) mine += __shfl_xor_sync(0xffffffff, mine, offset);
  if constexpr (kTeam == kWarp) {
    return mine;
  } else {
    __shared__ float of_warps[kTeam / kWarp];
    __syncthreads();  // of_warps may still be read by the last call
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = mine;
    __syncthreads();
    float sum = 0;
    for (int warp = 0; warp < kTeam / kWarp; ++warp) sum += of_warps[warp];
    return sum;
  }
}

template <typename T, int kWide, int kTeam>
__global__ void __launch_bounds__(kThreads) NormKernel(const __grid_constant__ NormRows rows, int64_t count) {
  const int first = static_cast<int>(threadIdx.x) % kTeam;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kTeam) + threadIdx.x / kTeam;
  if (row >= count) return;  // the whole team
  const NormThread<T, kWide> mine(rows, row, first, kTeam);
  const float scale = mine.ScaleOf(OverTeam<kTeam>(mine.Squares()));
  if (first == 0) rows.scales[row] = scale;
  mine.Put(scale);
}

// Every block has neighbouring rows, and its teams take them one after the other. A team adds up what the weight gets
// from its rows in sums of its own, each of whose places is one thread's; at the end the teams' are added.
template <typename T, int kWide, int kTeam>
__global__ void __launch_bounds__(kThreads) NormGradientKernel(const __grid_constant__ NormRows rows, int64_t count) {
  extern __shared__ __align__(16) float shared_sums[];
  constexpr int kTeams = kThreads / kTeam;
  const int first = static_cast<int>(threadIdx.x) % kTeam, team = static_cast<int>(threadIdx.x) / kTeam;
  const int64_t size = rows.size, part = blockIdx.x, each = (count + gridDim.x - 1) / gridDim.x;
  const int64_t end = (part + 1) * each < count ? (part + 1) * each : count;
  float* const of_part = rows.weight_gradient == nullptr ? nullptr : rows.weight_gradient + part * size;
  const bool shares = size <= kMostShared;
  float* const sums = of_part == nullptr ? nullptr : shares ? shared_sums + team * size : of_part;
  if (sums != nullptr) NormThread<T, kWide>(rows, 0, first, kTeam).Clear(sums);
  for (int64_t row = part * each + team; row < end; row += kTeams) {
    const NormThread<T, kWide> mine(rows, row, first, kTeam);
    const float scale = rows.scales[row];
    const float products = OverTeam<kTeam>(mine.Products(scale, sums));
    if (rows.input_gradient != nullptr) mine.PutGradient(scale, products / static_cast<float>(size));
  }
  if (sums == nullptr || !shares) return;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < size; i += kThreads) {
    float sum = 0;
    for (int other = 0; other < kTeams; ++other) sum += shared_sums[other * size + i];
    of_part[i] = sum;
  }
}

template <typename T, int kWide>
constexpr int64_t kOfBlock = int64_t{kThreads} * kWide;  // elements of a row

template <typename T, int kWide, bool kGradient>
__global__ void __launch_bounds__(kThreads) GatedKernel(const __grid_constant__ GatedRows rows, unsigned in_row) {
  const int64_t row = blockIdx.x / in_row, i = static_cast<int64_t>(blockIdx.x % in_row) * kThreads + threadIdx.x;
  if (i * kWide >= rows.size) return;
  if constexpr (kGradient) {
    GateGradientGroup<T, kWide>(rows, row, i);
  } else {
    GateGroup<T, kWide>(rows, row, i);
  }
}

template <typename T, int kWide>
__global__ void __launch_bounds__(kThreads) RotateKernel(const __grid_constant__ RotatedRows rows) {
  RotateRow<T, kWide>(rows, blockIdx.x, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}

// Returns its own error, where <<<>>> would leave it among those of the thread's other calls.
template <typename... Arguments>
const char* Launch(void (*kernel)(Arguments...), int64_t blocks, int64_t threads, int64_t shared_bytes, void* stream,
                   std::decay_t<Arguments>... arguments) {
  if (blocks == 0) return nullptr;
  void* pointers[] = {&arguments...};
  const cudaError_t error = cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                                             dim3(static_cast<unsigned>(threads)), pointers,
                                             static_cast<size_t>(shared_bytes), static_cast<cudaStream_t>(stream));
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

// run(T()) of a type's T.
template <typename Run>
const char* OfType(DType dtype, const Run& run) {
  if (dtype == DType::kFloat32) return run(float());
  if (dtype == DType::kBFloat16) return run(__nv_bfloat16());
  if (dtype == DType::kFloat16) return run(__half());
  return "states are float32, bfloat16 or float16 here";
}

template <int kValue>
using Number = std::integral_constant<int, kValue>;

// run(T(), kWide, kTeam), with numbers that the compiler knows.
template <typename Run>
const char* OfNorm(const NormRows& rows, const Run& run) {
  return OfType(rows.dtype, [&](auto type) {
    using T = decltype(type);
    const auto by = [](const void* pointer) { return IsGrouped<T, kNormWide>(pointer); };
    const bool is_wide = rows.size % kNormWide == 0 && by(rows.input) && by(rows.weight) && by(rows.output) &&
                         by(rows.gradient) && by(rows.input_gradient);
    const auto of_width = [&](auto wide) {
      return rows.size <= kMostOfWarp ? run(type, wide, Number<kWarp>()) : run(type, wide, Number<kThreads>());
    };
    return is_wide ? of_width(Number<kNormWide>()) : of_width(Number<1>());
  });
}

int64_t TeamsOf(int64_t size) { return size <= kMostOfWarp ? kThreads / kWarp : 1; }

template <bool kGradient>
const char* LaunchGated(const GatedRows& rows, int64_t count, void* stream) {
  return OfType(rows.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int kWide = 16 / sizeof(T);
    const auto by = [](const void* pointer) { return IsGrouped<T, kWide>(pointer); };
    const bool is_wide = rows.size % kWide == 0 && rows.row_stride % kWide == 0 && by(rows.gate) && by(rows.up) &&
                         by(rows.output) && by(rows.gradient) && by(rows.gate_gradient) && by(rows.up_gradient);
    const int64_t of_block = is_wide ? kOfBlock<T, kWide> : kOfBlock<T, 1>;
    const int64_t in_row = (rows.size + of_block - 1) / of_block;
    return Launch(is_wide ? GatedKernel<T, kWide, kGradient> : GatedKernel<T, 1, kGradient>, count * in_row, kThreads,
                  0, stream, rows, static_cast<unsigned>(in_row));
  });
}

}  // namespace

bool HasCudaLayerSweeps() { return true; }

const char* EnqueueNorm(const NormRows& rows, int64_t count, void* stream) {
  const int64_t teams = TeamsOf(rows.size);
  return OfNorm(rows, [&](auto type, auto wide, auto team) {
    return Launch(NormKernel<decltype(type), wide, team>, (count + teams - 1) / teams, kThreads, 0, stream, rows,
                  count);
  });
}

// Four rows a team before there are more blocks.
int64_t NormGradientParts(int64_t count, int64_t size) {
  const int64_t of_block = 4 * TeamsOf(size), parts = (count + of_block - 1) / of_block;
  return parts < kMostParts ? parts : kMostParts;
}

const char* EnqueueNormGradient(const NormRows& rows, int64_t count, void* stream) {
  const bool shares = rows.weight_gradient != nullptr && rows.size <= kMostShared;
  const int64_t shared_bytes =
      shares ? TeamsOf(rows.size) * rows.size * static_cast<int64_t>(sizeof(float)) : int64_t{0};
  return OfNorm(rows, [&](auto type, auto wide, auto team) {
    return Launch(NormGradientKernel<decltype(type), wide, team>, NormGradientParts(count, rows.size), kThreads,
                  shared_bytes, stream, rows, count);
  });
}

const char* EnqueueGated(const GatedRows& rows, int64_t count, void* stream) {
  return LaunchGated</*kGradient=*/false>(rows, count, stream);
}

const char* EnqueueGatedGradient(const GatedRows& rows, int64_t count, void* stream) {
  return LaunchGated</*kGradient=*/true>(rows, count, stream);
}

const char* EnqueueRotate(const RotatedRows& rows, int64_t count, void* stream) {
  return OfType(rows.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int kWide = 16 / sizeof(T);
    const auto by = [](const void* pointer) { return IsGrouped<T, kWide>(pointer); };
    const bool is_wide = rows.half % kWide == 0 && rows.size % kWide == 0 && rows.row_stride % kWide == 0 &&
                         rows.head_stride % kWide == 0 && by(rows.input) && by(rows.cos) && by(rows.sin) &&
                         by(rows.output);
    const int64_t items = rows.heads * (is_wide ? rows.half / kWide : rows.half);
    const int64_t warps = (items + kWarp - 1) / kWarp, most = kThreads / kWarp;
    return Launch(is_wide ? RotateKernel<T, kWide> : RotateKernel<T, 1>, count,
                  kWarp * (warps == 0     ? 1
                           : warps < most ? warps
                                          : most),
                  0, stream, rows);
  });
}

}  // namespace distill
