#include "libdistill/loss/chunk_sweep.h"

#include <c10/core/DeviceGuard.h>

#include <vector>

#include "libdistill/core/check.h"
#include "libdistill/core/vectors.h"
#include "libdistill/loss/sweep_cuda.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/own_stream.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

using torch::Tensor;

bool HasLoops(const Tensor& values) {
  return values.scalar_type() == torch::kFloat32 || values.scalar_type() == torch::kBFloat16 ||
         values.scalar_type() == torch::kFloat16;
}

RowOfProducts RowOf(const ChunkProducts& products, int64_t row) {
  const Tensor& values = products.values;
  if (!values.defined()) return {};
  auto* first = static_cast<char*>(values.data_ptr());
  return {.values = first + row * values.stride(0) * static_cast<int64_t>(values.element_size()),
          .dtype = *FromTorch(values.scalar_type()),
          .tail = products.tail.defined() ? products.tail.data_ptr<float>() + row : nullptr};
}

HeadOutput OutputOf(const ChunkProducts& products) {
  return {.bias = products.bias.defined() ? products.bias.data_ptr<float>() : nullptr,
          .scale = static_cast<float>(products.scaling.scale),
          .softcap = static_cast<float>(products.scaling.softcap)};
}

ChunkSums RunRows(const ChunkProducts& student, const ChunkProducts& teacher, const Tensor& labels,
                  const SweepOptions& options) {
  const int64_t tokens = labels.size(0);
  const Tensor label_values = labels.contiguous();
  const int64_t* label = label_values.data_ptr<int64_t>();
  std::vector<SweepSums> of_rows(static_cast<size_t>(tokens));
  ParallelFor(tokens, /*grain=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      of_rows[row] = SweepRow(RowOf(student, row), RowOf(teacher, row), label[row], options);
    }
  });
  SweepSums sum;  // in the order of the rows, however many threads there were
  for (const SweepSums& of_row : of_rows) {
    sum.divergence += of_row.divergence;
    sum.ce += of_row.ce;
  }
  const auto scalars = torch::TensorOptions().dtype(torch::kFloat64);
  return {torch::scalar_tensor(sum.divergence, scalars), torch::scalar_tensor(sum.ce, scalars)};
}

ChunkSums RunOnGpu(const ChunkProducts& student, const ChunkProducts& teacher, const Tensor& labels,
                   const SweepOptions& options) {
  const c10::Device device = student.values.device();
  const c10::DeviceGuard guard(device);
  const Tensor label_values = labels.contiguous();
  // [2, C]: divergences, then cross-entropies.
  const Tensor sums = torch::empty({2, labels.size(0)}, student.values.options().dtype(torch::kFloat64));
  const auto stride_of = [](const Tensor& values) { return values.defined() ? values.stride(0) : 0; };
  const char* const error = EnqueueSweep({.student = RowOf(student, 0),
                                          .teacher = RowOf(teacher, 0),
                                          .student_stride = stride_of(student.values),
                                          .teacher_stride = stride_of(teacher.values),
                                          .gradient = *FromTorch(student.gradient().scalar_type()),
                                          .labels = label_values.data_ptr<int64_t>(),
                                          .tokens = labels.size(0),
                                          .divergences = sums[0].data_ptr<double>(),
                                          .ces = sums[1].data_ptr<double>(),
                                          .options = options},
                                         CurrentStream(device).native_handle());
  TORCH_CHECK(error == nullptr, "the distillation loss's kernel did not start on ", device, ": ", error);
  const Tensor totals = sums.sum(1);
  return {totals[0], totals[1]};
}

}  // namespace

SweepSums SweepRow(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options) {
  for (const DType dtype : {student.dtype, teacher.dtype}) {
    DISTILL_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16,
                  "products are float32, bfloat16 or float16");
  }
  static const SweepRowFunction chosen = DISTILL_FOR_THIS_CPU(kSweep);
  return chosen(student, teacher, label, options);
}

ChunkSums SweepChunk(const ChunkProducts& student, const ChunkProducts& teacher, const Tensor& labels,
                     const DistillationOptions& options, Divergence divergence, bool wants_gradient) {
  const auto row_options = [&]() -> SweepOptions {
    return {.vocabulary = student.values.size(1),
            .divergence = divergence,
            .beta = static_cast<float>(options.beta),
            .skew = static_cast<float>(options.skew.value_or(kDefaultSkew)),
            .top_k = options.top_k_logits.value_or(kDefaultTopK),
            .temperature = static_cast<float>(options.temperature),
            .alpha = static_cast<float>(options.alpha),
            .wants_gradient = wants_gradient,
            .gradient_scale = static_cast<float>(options.gradient_scale),
            .student = OutputOf(student),
            .teacher = OutputOf(teacher)};
  };
  const Tensor& like = teacher.values.defined() ? teacher.values : student.values;
  const bool has_loops = HasLoops(student.values) && HasLoops(like);
  const bool is_in_place = !student.narrow_gradient.defined();
  if (has_loops && is_in_place && student.values.is_cpu()) return RunRows(student, teacher, labels, row_options());
  if (has_loops && student.values.is_cuda() && HasCudaSweep()) {
    return RunOnGpu(student, teacher, labels, row_options());
  }
  return SweepTensors(student, teacher, labels, options, divergence, wants_gradient);
}

}  // namespace distill
