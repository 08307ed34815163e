#include "libdistill/nn/frame_packing.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "libdistill/nn/sweep_type.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum class Direction { kPack, kUnpack };

// Between frames [N, F], contiguous, and a tensor of the same type whose frames of a row and time are `row_stride` and
// `time_stride` apart, and contiguous by themselves.
struct FrameCopy {
  char* packed = nullptr;
  char* apart = nullptr;
  int64_t frame_bytes = 0;
  int64_t row_bytes = 0;
  int64_t time_bytes = 0;
};

void CopyFrames(const FrameCopy& copy, const std::vector<int64_t>& rows, const Tensor& batch_sizes,
                Direction direction) {
  char* packed = copy.packed;
  const int64_t* sizes = batch_sizes.const_data_ptr<int64_t>();
  for (int64_t time = 0; time < batch_sizes.size(0); ++time) {
    for (int64_t i = 0; i < sizes[time]; ++i, packed += copy.frame_bytes) {
      char* apart = copy.apart + rows[static_cast<size_t>(i)] * copy.row_bytes + time * copy.time_bytes;
      const bool packs = direction == Direction::kPack;
      std::memcpy(packs ? packed : apart, packs ? apart : packed, static_cast<size_t>(copy.frame_bytes));
    }
  }
}

// `apart`: [rows, times, F], whose last dimension is contiguous.
void CopyFrames(const Tensor& packed, const Tensor& apart, const std::vector<int64_t>& rows, const Tensor& batch_sizes,
                Direction direction) {
  const int64_t bytes = packed.element_size();
  // Only one of the two is written, and that one is new.
  CopyFrames({.packed = static_cast<char*>(const_cast<void*>(packed.const_data_ptr())),
              .apart = static_cast<char*>(const_cast<void*>(apart.const_data_ptr())),
              .frame_bytes = packed.size(1) * bytes,
              .row_bytes = apart.stride(0) * bytes,
              .time_bytes = apart.stride(1) * bytes},
             rows, batch_sizes, direction);
}

Tensor Packed(const Tensor& apart, const std::vector<int64_t>& rows, const Tensor& batch_sizes) {
  const Tensor source = apart.stride(2) == 1 || apart.size(2) == 1 ? apart : apart.contiguous();
  const Tensor packed = at::empty({batch_sizes.sum().item<int64_t>(), source.size(2)}, source.options());
  CopyFrames(packed, source, rows, batch_sizes, Direction::kPack);
  return packed;
}

// `like`: the shape [rows, times].
Tensor Apart(const Tensor& packed, const std::vector<int64_t>& rows, const Tensor& batch_sizes, int64_t times) {
  const auto row_count = static_cast<int64_t>(rows.size());
  const bool is_full = packed.size(0) == row_count * times;
  const std::vector<int64_t> shape = {times, row_count, packed.size(1)};
  const Tensor apart = is_full ? at::empty(shape, packed.options()) : at::zeros(shape, packed.options());
  CopyFrames(packed.contiguous(), apart.transpose(0, 1), rows, batch_sizes, Direction::kUnpack);
  return apart;  // [times, rows, F]
}

struct PackFunction : torch::autograd::Function<PackFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& features, const std::vector<int64_t>& rows,
                        const Tensor& batch_sizes) {
    ctx->saved_data["rows"] = rows;
    ctx->saved_data["batch_sizes"] = batch_sizes;
    ctx->saved_data["times"] = features.size(1);
    return Packed(features, rows, batch_sizes);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    RequireFirstDerivative();
    const Tensor apart = Apart(gradients[0], ctx->saved_data["rows"].toIntVector(),
                               ctx->saved_data["batch_sizes"].toTensor(), ctx->saved_data["times"].toInt());
    return {apart.transpose(0, 1), Tensor(), Tensor()};
  }
};

struct UnpackFunction : torch::autograd::Function<UnpackFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& frames, const std::vector<int64_t>& rows,
                        const Tensor& batch_sizes, int64_t times) {
    ctx->saved_data["rows"] = rows;
    ctx->saved_data["batch_sizes"] = batch_sizes;
    return Apart(frames, rows, batch_sizes, times);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    RequireFirstDerivative();
    const Tensor packed = Packed(gradients[0].transpose(0, 1), ctx->saved_data["rows"].toIntVector(),
                                 ctx->saved_data["batch_sizes"].toTensor());
    return {packed, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

FramePacking PackingOf(const Tensor& lengths) {
  const int64_t count = lengths.size(0);
  TORCH_CHECK(count > 0, "there are no rows to pack");
  const Tensor contiguous = lengths.contiguous();
  const int64_t* of_row = contiguous.const_data_ptr<int64_t>();
  FramePacking packing = {std::vector<int64_t>(static_cast<size_t>(count)), Tensor()};
  std::iota(packing.rows.begin(), packing.rows.end(), 0);
  std::stable_sort(packing.rows.begin(), packing.rows.end(),
                   [&](int64_t a, int64_t b) { return of_row[a] > of_row[b]; });
  packing.batch_sizes = at::zeros({of_row[packing.rows.front()]}, lengths.options());
  for (int64_t row = 0; row < count; ++row) packing.batch_sizes.narrow(0, 0, of_row[row]).add_(1);
  return packing;
}

Tensor PackFrames(const Tensor& features, const FramePacking& packing) {
  return PackFunction::apply(features, packing.rows, packing.batch_sizes);
}

Tensor UnpackFrames(const Tensor& frames, const FramePacking& packing, int64_t times) {
  return UnpackFunction::apply(frames, packing.rows, packing.batch_sizes, times);
}

}  // namespace distill
