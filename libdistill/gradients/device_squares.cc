#include "libdistill/gradients/device_squares.h"

#include <ATen/ops/linalg_vector_norm.h>

#include "libdistill/tensor/own_stream.h"

namespace distill {

double DeviceSquares::Sum(const torch::Tensor& values) {
  if (!HasSquareKernels() || !values.is_cuda()) return SumOfSquaresByRows(values);
  TORCH_CHECK(values.scalar_type() == torch::kFloat32 && values.is_contiguous(),
              "gradients whose squares are added up are float32 values in a row");
  if (values.numel() == 0) return 0;
  if (!sums_.defined()) sums_ = torch::empty({kSquareSums}, values.options().dtype(torch::kFloat64));
  const char* const error = EnqueueSquares(static_cast<const float*>(values.const_data_ptr()), values.numel(),
                                           sums_.data_ptr<double>(), CurrentStream(values.device()).native_handle());
  TORCH_CHECK(error == nullptr, "summing up the squares of gradients: ", error);
  return sums_[kMostSquareBlocks].item<double>();
}

double SumOfSquaresByRows(const torch::Tensor& values) {
  constexpr int64_t kRow = 1024;
  const auto sum = [](const torch::Tensor& rows) {
    return at::linalg_vector_norm(rows, 2, {1}).to(torch::kFloat64).square_().sum().item<double>();
  };
  const int64_t in_rows = values.numel() / kRow * kRow, left = values.numel() - in_rows;
  double total = 0;
  if (in_rows > 0) total += sum(values.narrow(0, 0, in_rows).view({-1, kRow}));
  if (left > 0) total += sum(values.narrow(0, in_rows, left).view({1, left}));
  return total;
}

}  // namespace distill
