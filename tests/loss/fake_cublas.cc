#include "tests/loss/fake_cublas.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "libdistill/loss/cublas_library.h"

namespace distill {
namespace testing {

FakeCublas& fake_cublas() {
  static FakeCublas fake;
  return fake;
}

namespace {

struct Layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t stride;  // from a column to the next
};
struct Product {
  cublasComputeType_t computed_in;
  cudaDataType scale;
  cublasOperation_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
};
struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};
};
// In place of the library's own numbers: what the algorithm was chosen for.
constexpr uint64_t kAlgorithm = 4711;

cublasStatus_t Outcome(const char* function) {
  return fake_cublas().failing == function ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

template <typename Thing, typename Handle>
cublasStatus_t Make(const char* function, Handle* handle, Thing thing) {
  if (const cublasStatus_t status = Outcome(function); status != CUBLAS_STATUS_SUCCESS) return status;
  *handle = reinterpret_cast<Handle>(new Thing(thing));
  ++fake_cublas().alive;
  return CUBLAS_STATUS_SUCCESS;
}
template <typename Thing, typename Handle>
cublasStatus_t Destroy(Handle handle) {
  delete reinterpret_cast<Thing*>(handle);
  --fake_cublas().alive;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Declared>
void* As(Declared function) {
  return reinterpret_cast<void*>(function);
}

const char* StatusText(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "what the fake cuBLAS met";
}

cublasStatus_t Create(cublasLtHandle_t* handle) {
  if (const cublasStatus_t status = Outcome("cublasLtCreate"); status != CUBLAS_STATUS_SUCCESS) return status;
  ++fake_cublas().handles;
  *handle = reinterpret_cast<cublasLtHandle_t>(&fake_cublas());
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CreateProduct(cublasLtMatmulDesc_t* product, cublasComputeType_t computed_in, cudaDataType scale) {
  return Make("cublasLtMatmulDescCreate", product, Product{computed_in, scale});
}
cublasStatus_t SetProduct(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const void* value,
                          size_t bytes) {
  auto* const fake = reinterpret_cast<Product*>(product);
  if (bytes != sizeof(cublasOperation_t)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? &fake->first : &fake->second, value, bytes);
  return Outcome("cublasLtMatmulDescSetAttribute");
}

cublasStatus_t CreateLayout(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows, uint64_t columns,
                            int64_t stride) {
  if (stride < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  return Make("cublasLtMatrixLayoutCreate", layout, Layout{type, rows, columns, stride});
}

cublasStatus_t CreatePreference(cublasLtMatmulPreference_t* preference) {
  return Make("cublasLtMatmulPreferenceCreate", preference, Preference{});
}
cublasStatus_t SetPreference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                             const void* value, size_t bytes) {
  auto* const fake = reinterpret_cast<Preference*>(preference);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (bytes != sizeof(uint64_t)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&fake->workspace_bytes, value, bytes);
  } else {
    const int which = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (bytes != sizeof(uint32_t) || which < 0 || which > 3) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&fake->alignments[which], value, bytes);
  }
  return Outcome("cublasLtMatmulPreferenceSetAttribute");
}

cublasStatus_t FindAlgorithm(cublasLtHandle_t handle, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                             cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                             cublasLtMatmulPreference_t preference, int requested,
                             cublasLtMatmulHeuristicResult_t results[], int* count) {
  if (handle == nullptr || requested != 1) return CUBLAS_STATUS_INVALID_VALUE;
  const auto* const fake = reinterpret_cast<const Preference*>(preference);
  FakeCublas& all = fake_cublas();
  ++all.searches;
  all.workspace_bytes = fake->workspace_bytes;
  all.alignments.assign(fake->alignments, fake->alignments + 4);
  *count = all.has_algorithms ? 1 : 0;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].algo.data[0] = kAlgorithm;
  return Outcome("cublasLtMatmulAlgoGetHeuristic");
}

float ValueAt(const void* values, const Layout& layout, bool is_transposed, uint64_t row, uint64_t column) {
  if (is_transposed) std::swap(row, column);
  const auto at = static_cast<int64_t>(row) + static_cast<int64_t>(column) * layout.stride;
  if (layout.type == CUDA_R_16F) return __half2float(static_cast<const __half*>(values)[at]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(values)[at]);
}

cublasStatus_t Multiply(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                        cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                        const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                        cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t,
                        cudaStream_t stream) {
  if (const cublasStatus_t status = Outcome("cublasLtMatmul"); status != CUBLAS_STATUS_SUCCESS) return status;
  const auto& first = *reinterpret_cast<const Layout*>(a_layout);
  const auto& second = *reinterpret_cast<const Layout*>(b_layout);
  const auto& out = *reinterpret_cast<const Layout*>(d_layout);
  const auto& how = *reinterpret_cast<const Product*>(product);
  const bool turns_first = how.first == CUBLAS_OP_T, turns_second = how.second == CUBLAS_OP_T;
  const uint64_t depth = turns_first ? first.rows : first.columns;
  const bool fits = (turns_first ? first.columns : first.rows) == out.rows &&
                    (turns_second ? second.rows : second.columns) == out.columns &&
                    (turns_second ? second.columns : second.rows) == depth;
  const bool is_wide = out.type == CUDA_R_32F && how.computed_in == CUBLAS_COMPUTE_32F && how.scale == CUDA_R_32F &&
                       first.type == second.type;
  const bool is_whole = handle != nullptr && c == d && c_layout == d_layout && algorithm->data[0] == kAlgorithm;
  if (!fits || !is_wide || !is_whole) return CUBLAS_STATUS_INVALID_VALUE;
  const float times = *static_cast<const float*>(alpha), keeps = *static_cast<const float*>(beta);
  for (uint64_t column = 0; column < out.columns; ++column) {
    for (uint64_t row = 0; row < out.rows; ++row) {
      float sum = 0;
      for (uint64_t i = 0; i < depth; ++i) {
        sum += ValueAt(a, first, turns_first, row, i) * ValueAt(b, second, turns_second, i, column);
      }
      float& at = static_cast<float*>(d)[static_cast<int64_t>(row) + static_cast<int64_t>(column) * out.stride];
      at = times * sum + (keeps == 0 ? 0 : keeps * at);
    }
  }
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  fake_cublas().workspace = workspace;
  fake_cublas().stream = stream;
  ++fake_cublas().products;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace testing

absl::StatusOr<void*> FindInCublasLt(int major, const char* function) {
  if (!testing::fake_cublas().is_there || major != CUBLAS_VER_MAJOR) return absl::UnimplementedError("no such library");
  // As the header declares them, or this does not compile.
  static const std::map<std::string, void*> functions = {
      {"cublasLtGetStatusString", testing::As<decltype(&cublasLtGetStatusString)>(&testing::StatusText)},
      {"cublasLtCreate", testing::As<decltype(&cublasLtCreate)>(&testing::Create)},
      {"cublasLtMatmulDescCreate", testing::As<decltype(&cublasLtMatmulDescCreate)>(&testing::CreateProduct)},
      {"cublasLtMatmulDescSetAttribute", testing::As<decltype(&cublasLtMatmulDescSetAttribute)>(&testing::SetProduct)},
      {"cublasLtMatmulDescDestroy",
       testing::As<decltype(&cublasLtMatmulDescDestroy)>(&testing::Destroy<testing::Product>)},
      {"cublasLtMatrixLayoutCreate", testing::As<decltype(&cublasLtMatrixLayoutCreate)>(&testing::CreateLayout)},
      {"cublasLtMatrixLayoutDestroy",
       testing::As<decltype(&cublasLtMatrixLayoutDestroy)>(&testing::Destroy<testing::Layout>)},
      {"cublasLtMatmulPreferenceCreate",
       testing::As<decltype(&cublasLtMatmulPreferenceCreate)>(&testing::CreatePreference)},
      {"cublasLtMatmulPreferenceSetAttribute",
       testing::As<decltype(&cublasLtMatmulPreferenceSetAttribute)>(&testing::SetPreference)},
      {"cublasLtMatmulPreferenceDestroy",
       testing::As<decltype(&cublasLtMatmulPreferenceDestroy)>(&testing::Destroy<testing::Preference>)},
      {"cublasLtMatmulAlgoGetHeuristic",
       testing::As<decltype(&cublasLtMatmulAlgoGetHeuristic)>(&testing::FindAlgorithm)},
      {"cublasLtMatmul", testing::As<decltype(&cublasLtMatmul)>(&testing::Multiply)}};
  const auto found = functions.find(function);
  if (found == functions.end()) return absl::UnimplementedError(function);
  return found->second;
}

}  // namespace distill

extern "C" {

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  return *value = distill::testing::fake_cublas().major, cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "what the fake CUDA met"; }
}
