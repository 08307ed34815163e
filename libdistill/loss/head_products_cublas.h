// Products of narrow matrices on a GPU whose result is float32, by cuBLAS itself; inside loss/ only, but for
// CheckWideProducts, which plans ask. No LibTorch here: its products give the matrices' own type.
//
//   DISTILL_RETURN_IF_ERROR(CheckWideProducts(DType::kBFloat16, device));
//   DISTILL_RETURN_IF_ERROR(EnqueueWideProduct({.dtype = DType::kBFloat16, .rows = ..., }, device, stream));
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "libdistill/core/dtype.h"

namespace distill {

// In the device's memory, row after row.
struct NarrowMatrix {
  const void* values = nullptr;
  int64_t stride = 0;          // elements from a row to the next, as it lies there
  bool is_transposed = false;  // the product takes the transpose of what lies there
};

// out = a b, or out += a b; `rows` x `columns` = `rows` x `depth` times `depth` x `columns`, each at least 1. Computed
// and added up in float32.
struct WideProduct {
  DType dtype = DType::kBFloat16;  // of a and b: bfloat16 or float16
  int64_t rows = 0, columns = 0, depth = 0;
  NarrowMatrix a, b;
  float* out = nullptr;
  int64_t out_stride = 0;
  bool adds = false;          // to what is there; otherwise that is not read
  void* workspace = nullptr;  // of the device's memory, kProductWorkspaceBytes, aligned to 256
};

// As much as cuBLAS asks for on H100 and later GPUs; on earlier ones it uses less.
constexpr int64_t kProductWorkspaceBytes = 32 << 20;

// Unimplemented: why there are no such products of this type on this GPU (a CUDA index; below 0: the CPU).
[[nodiscard]] absl::Status CheckWideProducts(DType dtype, int device);

// Unimplemented: cublasLt is not found, or lacks a function. Asks for no GPU.
[[nodiscard]] absl::Status CheckCublasLt();

// Enqueued on `stream` (a cudaStream_t) of `device`, which is the thread's current one; does not wait for it. Internal:
// cuBLAS's call that failed, its text, and the shapes; Unimplemented: it knows no way for these shapes, strides and
// alignments, and nothing was enqueued. Any thread may call it. What cuBLAS chooses for a shape is kept.
[[nodiscard]] absl::Status EnqueueWideProduct(const WideProduct& product, int device, void* stream);

}  // namespace distill
