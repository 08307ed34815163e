#include "libdistill/loss/head_products_cublas.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/loss/cublas_library.h"

// cuBLAS counts by columns: it sees a matrix that lies in rows as its transpose. So it is asked for
// out^T = b^T a^T, whose first matrix is ours of b and whose second is ours of a. Where ours is not transposed, what
// cuBLAS sees is the transpose that it is to take; where ours is, cuBLAS transposes it back.
namespace distill {
namespace {

struct CublasLt {
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmulDescCreate) create_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatmulDescDestroy) destroy_product;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm;
  decltype(&cublasLtMatmul) multiply;
};

// Of the version whose header this build has.
template <typename Function>
absl::Status Find(const char* name, Function& function) {
  DISTILL_ASSIGN_OR_RETURN(void* const found, FindInCublasLt(CUBLAS_VER_MAJOR, name));
  function = reinterpret_cast<Function>(found);
  return absl::OkStatus();
}

absl::StatusOr<CublasLt> Open() {
  CublasLt lt = {};
  DISTILL_RETURN_IF_ERROR(Find("cublasLtGetStatusString", lt.status_text));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtCreate", lt.create));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtMatmulDescCreate", lt.create_product));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtMatmulDescSetAttribute", lt.set_product));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtMatmulDescDestroy", lt.destroy_product));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtMatrixLayoutCreate", lt.create_layout));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtMatrixLayoutDestroy", lt.destroy_layout));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtMatmulPreferenceCreate", lt.create_preference));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtMatmulPreferenceSetAttribute", lt.set_preference));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtMatmulPreferenceDestroy", lt.destroy_preference));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtMatmulAlgoGetHeuristic", lt.find_algorithm));
  DISTILL_RETURN_IF_ERROR(Find("cublasLtMatmul", lt.multiply));
  return lt;
}

// Says so once where it is missing: LibTorch's products take more memory and time, and round what they give.
absl::StatusOr<CublasLt> OpenOrWarn() {
  absl::StatusOr<CublasLt> lt = Open();
  if (!lt.ok()) {
    LogWarning(
        absl::StrCat("head and loss multiply by LibTorch, in more memory and time, since cublasLt, which comes with",
                     " LibTorch, cannot be used: ", lt.status().message()));
  }
  return lt;
}

const absl::StatusOr<CublasLt>& Library() {
  static const auto* const library = new absl::StatusOr<CublasLt>(OpenOrWarn());
  return *library;
}

absl::Status Checked(const CublasLt& lt, absl::string_view call, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", lt.status_text(status)));
}

template <typename Handle>
struct Destroyer {
  cublasStatus_t (*destroy)(Handle) = nullptr;
  void operator()(Handle handle) const { destroy(handle); }
};
template <typename Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Handle>>;

// What a product of one shape is made with. cuBLAS only reads it, so threads may share it.
struct Prepared {
  Owned<cublasLtMatmulDesc_t> product;
  Owned<cublasLtMatrixLayout_t> first, second, out;
  cublasLtMatmulAlgo_t algorithm;
};

// Of a matrix that lies in `rows` of `columns`.
absl::StatusOr<Owned<cublasLtMatrixLayout_t>> Layout(const CublasLt& lt, cudaDataType_t type, int64_t rows,
                                                     int64_t columns, int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  DISTILL_RETURN_IF_ERROR(
      Checked(lt, "cublasLtMatrixLayoutCreate",
              lt.create_layout(&layout, type, static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), stride)));
  return Owned<cublasLtMatrixLayout_t>(layout, {lt.destroy_layout});
}

// Of a factor of `rows` x `columns`, as it lies in memory.
absl::StatusOr<Owned<cublasLtMatrixLayout_t>> LayoutOf(const CublasLt& lt, DType dtype, const NarrowMatrix& matrix,
                                                       int64_t rows, int64_t columns) {
  if (matrix.is_transposed) std::swap(rows, columns);
  return Layout(lt, dtype == DType::kFloat16 ? CUDA_R_16F : CUDA_R_16BF, rows, columns, matrix.stride);
}

absl::StatusOr<Owned<cublasLtMatmulDesc_t>> Description(const CublasLt& lt, const WideProduct& product) {
  cublasLtMatmulDesc_t description = nullptr;
  DISTILL_RETURN_IF_ERROR(
      Checked(lt, "cublasLtMatmulDescCreate", lt.create_product(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F)));
  Owned<cublasLtMatmulDesc_t> owned(description, {lt.destroy_product});
  for (const auto& [attribute, matrix] :
       {std::pair(CUBLASLT_MATMUL_DESC_TRANSA, &product.b), std::pair(CUBLASLT_MATMUL_DESC_TRANSB, &product.a)}) {
    const cublasOperation_t operation = matrix->is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    DISTILL_RETURN_IF_ERROR(Checked(lt, "cublasLtMatmulDescSetAttribute",
                                    lt.set_product(description, attribute, &operation, sizeof(operation))));
  }
  return owned;
}

// To how many bytes an address is aligned, as far as cuBLAS asks.
uint32_t AlignmentOf(const void* address) {
  constexpr uintptr_t kMost = 256;
  const auto bits = reinterpret_cast<uintptr_t>(address) | kMost;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

absl::Status FindAlgorithm(const CublasLt& lt, cublasLtHandle_t handle, const WideProduct& product,
                           Prepared& prepared) {
  cublasLtMatmulPreference_t made = nullptr;
  DISTILL_RETURN_IF_ERROR(Checked(lt, "cublasLtMatmulPreferenceCreate", lt.create_preference(&made)));
  const Owned<cublasLtMatmulPreference_t> preference(made, {lt.destroy_preference});
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return Checked(lt, "cublasLtMatmulPreferenceSetAttribute",
                   lt.set_preference(preference.get(), attribute, &value, sizeof(value)));
  };
  DISTILL_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kProductWorkspaceBytes}));
  DISTILL_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, AlignmentOf(product.b.values)));
  DISTILL_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, AlignmentOf(product.a.values)));
  DISTILL_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, AlignmentOf(product.out)));
  DISTILL_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, AlignmentOf(product.out)));
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  cublasStatus_t status =
      lt.find_algorithm(handle, prepared.product.get(), prepared.first.get(), prepared.second.get(), prepared.out.get(),
                        prepared.out.get(), preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_SUCCESS) status = count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : found.state;
  const absl::Status result = Checked(lt, "cublasLtMatmulAlgoGetHeuristic", status);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return absl::UnimplementedError(result.message());
  DISTILL_RETURN_IF_ERROR(result);
  prepared.algorithm = found.algo;
  return absl::OkStatus();
}

absl::StatusOr<Prepared> Prepare(const CublasLt& lt, cublasLtHandle_t handle, const WideProduct& product) {
  Prepared prepared;
  DISTILL_ASSIGN_OR_RETURN(prepared.product, Description(lt, product));
  DISTILL_ASSIGN_OR_RETURN(prepared.first, LayoutOf(lt, product.dtype, product.b, product.depth, product.columns));
  DISTILL_ASSIGN_OR_RETURN(prepared.second, LayoutOf(lt, product.dtype, product.a, product.rows, product.depth));
  DISTILL_ASSIGN_OR_RETURN(prepared.out, Layout(lt, CUDA_R_32F, product.rows, product.columns, product.out_stride));
  DISTILL_RETURN_IF_ERROR(FindAlgorithm(lt, handle, product, prepared));
  return prepared;
}

// All that the choice of an algorithm depends on.
using Key = std::array<int64_t, 13>;
Key KeyOf(const WideProduct& p, int device) {
  return {device,
          static_cast<int64_t>(p.dtype),
          p.rows,
          p.columns,
          p.depth,
          p.a.stride,
          p.a.is_transposed,
          p.b.stride,
          p.b.is_transposed,
          p.out_stride,
          AlignmentOf(p.a.values),
          AlignmentOf(p.b.values),
          AlignmentOf(p.out)};
}

// Of all GPUs of the process: handles, and what was prepared with them. A loss has two shapes or three for each length
// of a chunk, of which there are chunk_tokens at most: some megabytes, however long a run is.
class Products {
 public:
  absl::StatusOr<std::pair<cublasLtHandle_t, const Prepared*>> Find(const CublasLt& lt, const WideProduct& product,
                                                                    int device) {
    const std::lock_guard lock(mutex_);
    cublasLtHandle_t& handle = handles_[device];
    if (handle == nullptr) DISTILL_RETURN_IF_ERROR(Checked(lt, "cublasLtCreate", lt.create(&handle)));
    const Key key = KeyOf(product, device);
    auto at = prepared_.find(key);
    if (at == prepared_.end()) {
      DISTILL_ASSIGN_OR_RETURN(Prepared prepared, Prepare(lt, handle, product));
      at = prepared_.emplace(key, std::move(prepared)).first;
    }
    return std::pair<cublasLtHandle_t, const Prepared*>(handle, &at->second);
  }

 private:
  std::mutex mutex_;
  std::map<int, cublasLtHandle_t> handles_;
  std::map<Key, Prepared> prepared_;
};

// As long as the process lives: at its end the driver may be gone before it.
Products& ProductsOfProcess() {
  static auto* const products = new Products;
  return *products;
}

absl::Status Enqueue(const WideProduct& product, int device, void* stream) {
  DISTILL_RETURN_IF_ERROR(Library().status());
  const CublasLt& lt = *Library();
  DISTILL_ASSIGN_OR_RETURN(const auto found, ProductsOfProcess().Find(lt, product, device));
  const auto& [handle, prepared] = found;
  const float alpha = 1, beta = product.adds ? 1 : 0;
  return Checked(
      lt, "cublasLtMatmul",
      lt.multiply(handle, prepared->product.get(), &alpha, product.b.values, prepared->first.get(), product.a.values,
                  prepared->second.get(), &beta, product.out, prepared->out.get(), product.out, prepared->out.get(),
                  &prepared->algorithm, product.workspace, kProductWorkspaceBytes, static_cast<cudaStream_t>(stream)));
}

}  // namespace

absl::Status CheckCublasLt() { return Library().status(); }

absl::Status CheckWideProducts(DType dtype, int device) {
  if (dtype != DType::kBFloat16 && dtype != DType::kFloat16) {
    return absl::UnimplementedError(absl::StrCat(NameOf(dtype), " is not narrow"));
  }
  if (device < 0) return absl::UnimplementedError("the tensors are the CPU's");
  int major = 0;
  const cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return absl::UnimplementedError(cudaGetErrorString(error));
  // The first with tensor cores for it.
  const int least = dtype == DType::kBFloat16 ? 8 : 7;
  if (major < least) {
    return absl::UnimplementedError(absl::StrCat("GPU ", device, " has compute capability ", major,
                                                 ".x, and products of ", NameOf(dtype), " want ", least, ".0"));
  }
  return CheckCublasLt();
}

absl::Status EnqueueWideProduct(const WideProduct& product, int device, void* stream) {
  const absl::Status status = Enqueue(product, device, stream);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), " (for ", product.rows, " x ", product.depth,
                                                  " times ", product.depth, " x ", product.columns, " of ",
                                                  NameOf(product.dtype), " into float32, rows ", product.a.stride, ", ",
                                                  product.b.stride, " and ", product.out_stride, " apart)"));
}

}  // namespace distill
