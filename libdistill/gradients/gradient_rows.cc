#include "libdistill/gradients/gradient_rows.h"

#include <algorithm>
#include <utility>

#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_blocks.h"

namespace distill {
namespace {

// Of a table, when so many more are looked up.
int64_t MostRows(int64_t rows, int64_t so_far, int64_t more) { return std::min(rows, so_far + more); }

void AddValues(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

int64_t GradientRows::Bytes(int64_t rows, int64_t width, int64_t looked_up, int64_t ranks) {
  const int64_t own = MostRows(rows, 0, looked_up), summed = MostRows(rows, own, (ranks - 1) * own);
  return (own + summed) * width * static_cast<int64_t>(sizeof(float)) + rows * static_cast<int64_t>(sizeof(int32_t));
}

void GradientRows::Clear() {
  for (const int64_t id : ids_) place_[static_cast<size_t>(id)] = kNowhere;
  ids_.clear();
  values_.clear();
}

void GradientRows::Add(const torch::Tensor& ids, const torch::Tensor& gradients) {
  const torch::Tensor rows = gradients.to(torch::kFloat32).contiguous(), indices = ids.contiguous();
  TORCH_CHECK(rows.dim() == 2 && rows.size(1) == width_ && indices.numel() == rows.size(0),
              "gradients of rows have the shape ", rows.sizes(), " where there are ", indices.numel(), " rows of ",
              width_);
  // Too little memory is noticed before anything has changed.
  const auto most = static_cast<size_t>(MostRows(static_cast<int64_t>(place_.size()), size(), rows.size(0)));
  ids_.reserve(most);
  values_.reserve(most * static_cast<size_t>(width_));
  const auto* id = static_cast<const int64_t*>(indices.data_ptr());
  const auto* row = static_cast<const float*>(rows.data_ptr());
  for (int64_t n = 0; n < rows.size(0); ++n, row += width_) {
    int32_t& place = place_.at(static_cast<size_t>(id[n]));
    if (place != kNowhere) {
      AddValues(row, width_, Row(values_, static_cast<size_t>(place)));
      continue;
    }
    values_.insert(values_.end(), row, row + width_);
    place = static_cast<int32_t>(ids_.size());
    ids_.push_back(id[n]);
  }
}

absl::Status GradientRows::Sum(Communicator& comm, absl::FunctionRef<absl::Status(float* values, int64_t count)> sum) {
  std::vector<uint8_t> marks(place_.size());
  for (const int64_t id : ids_) marks[static_cast<size_t>(id)] = 1;
  DISTILL_RETURN_IF_ERROR(
      comm.AllReduce(marks.data(), marks.data(), static_cast<int64_t>(marks.size()), DType::kUInt8, ReduceOp::kMax));
  std::vector<int64_t> ids;
  for (size_t id = 0; id < marks.size(); ++id) {
    if (marks[id] != 0) ids.push_back(static_cast<int64_t>(id));
  }
  std::vector<float> values(ids.size() * static_cast<size_t>(width_));
  for (size_t at = 0; at < ids.size(); ++at) {
    int32_t& place = place_[static_cast<size_t>(ids[at])];
    if (place != kNowhere) std::copy_n(Row(values_, static_cast<size_t>(place)), width_, Row(values, at));
    place = static_cast<int32_t>(at);
  }
  ids_ = std::move(ids);
  values_ = std::move(values);
  if (ids_.empty()) return absl::OkStatus();
  return sum(values_.data(), static_cast<int64_t>(values_.size()));
}

double GradientRows::AddTo(float* table) const {
  double grown = 0;
  const float* row = values_.data();
  for (const int64_t id : ids_) {
    float* const target = table + id * width_;
    grown -= SumOfSquares(target, width_);
    AddValues(row, width_, target);
    grown += SumOfSquares(target, width_);
    row += width_;
  }
  return grown;
}

}  // namespace distill
