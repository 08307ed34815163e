#include "libdistill/train/gradient_buckets.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

// Buckets begin at pages.
constexpr int64_t kAlignment = 4096 / sizeof(float);

int64_t RoundUp(int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

// Enough for any plan.
int64_t ElementsFor(const std::vector<TrainedParameter>& parameters) {
  int64_t elements = 0;
  for (const TrainedParameter& parameter : parameters) elements += RoundUp(parameter.tensor.numel());
  return std::max(elements, kAlignment);
}

}  // namespace

absl::StatusOr<torch::Tensor> AllocateForCalls(Communicator& comm, int64_t elements, torch::Dtype dtype,
                                               c10::Device device) {
  const int64_t bytes = elements * static_cast<int64_t>(torch::elementSize(dtype));
  if (!device.is_cpu() && !comm.takes_device_memory()) return torch::Tensor();
  absl::StatusOr<std::unique_ptr<CommMemory>> memory = comm.Allocate(bytes, {.on_device = !device.is_cpu()});
  if (absl::IsResourceExhausted(memory.status())) {
    if (comm.rank() == 0) {
      LogWarning(absl::StrCat("gradients are in ordinary memory, which is slower: ", memory.status().message()));
    }
    return torch::Tensor();
  }
  DISTILL_RETURN_IF_ERROR(memory.status());
  const std::shared_ptr<CommMemory> kept = *std::move(memory);
  return torch::from_blob(
      kept->data(), {elements}, [kept](void*) {}, torch::TensorOptions().dtype(dtype).device(device));
}

absl::StatusOr<GradientBuckets> GradientBuckets::Create(Communicator& comm,
                                                        const std::vector<TrainedParameter>& parameters,
                                                        const GradientPlan& plan) {
  const int64_t elements = ElementsFor(parameters);
  const c10::Device device = parameters[0].tensor.device();
  DISTILL_ASSIGN_OR_RETURN(torch::Tensor memory, AllocateForCalls(comm, elements, torch::kFloat32, device));
  DISTILL_RETURN_IF_ERROR(Agree(comm, CatchTorch([&] {
                                  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(device);
                                  if (!memory.defined()) memory = torch::zeros({elements}, options);
                                  return absl::OkStatus();
                                })));
  GradientBuckets buckets(parameters, std::move(memory));
  buckets.Lay(plan);
  return buckets;
}

void GradientBuckets::Lay(const GradientPlan& plan) {
  buckets_.clear();
  int64_t begin = 0;
  for (const std::vector<size_t>& members : plan.buckets) {
    int64_t end = begin;
    bool has_embedding = false;
    for (const size_t i : members) {
      const torch::Tensor& tensor = parameters_[i].tensor;
      gradients_[i] = memory_.narrow(0, end, tensor.numel()).view(tensor.sizes());
      end += tensor.numel();
      has_embedding |= tensor.dim() == 2 && tensor.size(0) >= kEmbeddingRows;
    }
    buckets_.push_back({memory_.narrow(0, begin, end - begin), members, has_embedding});
    begin = RoundUp(end);
  }
}

double GradientBuckets::Norm() const {
  double sum = 0;
  for (const GradientBucket& bucket : buckets_) sum += bucket.sum_of_squares;
  return std::sqrt(sum);
}

std::string GradientBuckets::FirstNonFinite() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!torch::isfinite(gradients_[i]).all().item<bool>()) return parameters_[i].name;
  }
  return "";
}

}  // namespace distill
