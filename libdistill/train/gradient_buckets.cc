#include "libdistill/train/gradient_buckets.h"

#include <cmath>

#include "libdistill/core/status_macros.h"
#include "libdistill/train/tensor_collectives.h"

namespace distill {

GradientBuckets::GradientBuckets(const std::vector<TrainedParameter>& parameters, int64_t bucket_bytes)
    : parameters_(parameters), gradients_(parameters.size()) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat32);
  for (size_t end = parameters_.size(); end > 0;) {
    size_t begin = end;
    int64_t elements = 0;
    while (begin > 0 && elements * static_cast<int64_t>(sizeof(float)) < bucket_bytes) {
      elements += parameters_[--begin].tensor.numel();
    }
    torch::Tensor bucket = torch::zeros({elements}, options.device(parameters_[begin].tensor.device()));
    int64_t offset = 0;
    for (size_t i = end; i-- > begin;) {
      const torch::Tensor& tensor = parameters_[i].tensor;
      gradients_[i] = bucket.narrow(0, offset, tensor.numel()).view(tensor.sizes());
      offset += tensor.numel();
    }
    buckets_.push_back(std::move(bucket));
    end = begin;
  }
  Zero();
}

void GradientBuckets::Zero() {
  torch::NoGradGuard no_grad;
  for (torch::Tensor& bucket : buckets_) bucket.zero_();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& tensor = parameters_[i].tensor;
    // Autograd adds in place to a gradient that is there already.
    tensor.mutable_grad() = tensor.scalar_type() == torch::kFloat32 ? gradients_[i] : torch::Tensor();
  }
}

void GradientBuckets::Collect() {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& grad = parameters_[i].tensor.mutable_grad();
    if (!grad.defined() || grad.is_same(gradients_[i])) continue;
    if (!grad.is_alias_of(gradients_[i])) gradients_[i].add_(grad);
    grad = parameters_[i].tensor.scalar_type() == torch::kFloat32 ? gradients_[i] : torch::Tensor();
  }
}

absl::Status GradientBuckets::AllReduce(Communicator& comm) {
  for (torch::Tensor& bucket : buckets_) DISTILL_RETURN_IF_ERROR(AllReduceSum(comm, bucket));
  return absl::OkStatus();
}

double GradientBuckets::Norm() const {
  double sum = 0;
  for (const torch::Tensor& bucket : buckets_) {
    const double norm = torch::linalg_vector_norm(bucket, 2, {}, false, {}).item<double>();
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

std::string GradientBuckets::FirstNonFinite() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!torch::isfinite(gradients_[i]).all().item<bool>()) return parameters_[i].name;
  }
  return "";
}

}  // namespace distill
