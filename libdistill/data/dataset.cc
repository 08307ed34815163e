#include "libdistill/data/dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/content_hash.h"

namespace distill {
namespace {

class MemoryDataset : public Dataset {
 public:
  MemoryDataset(std::vector<Sample> samples, std::string length_of)
      : samples_(std::move(samples)), length_of_(std::move(length_of)) {
    for (size_t i = 0; i < samples_.size(); ++i) samples_[i].id = static_cast<int64_t>(i);
  }

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }

  absl::StatusOr<int64_t> Length(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    if (length_of_.empty()) return 1;
    DISTILL_ASSIGN_OR_RETURN(const HostTensor tensor, samples_[index].Find(length_of_));
    if (!tensor.shape().empty()) return tensor.shape()[0];
    return absl::InvalidArgumentError(absl::StrCat("sample ", index, ": '", length_of_, "' is ", tensor.Describe(),
                                                   ", which has no first dimension to take the length from"));
  }

  absl::StatusOr<Sample> Read(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    return samples_[index];
  }

  absl::StatusOr<std::string> Fingerprint() const override { return ChecksumOfSamples(*this); }
  int64_t MemoryBytes() const override {
    int64_t bytes = 0;
    for (const Sample& sample : samples_) {
      for (const auto& [name, tensor] : sample.tensors) bytes += tensor.size_bytes();
    }
    return bytes;
  }

 private:
  std::vector<Sample> samples_;
  const std::string length_of_;
};

}  // namespace

absl::Status CheckIndex(const Dataset& dataset, int64_t index) {
  if (index >= 0 && index < dataset.size()) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("there is no sample ", index, " among ", dataset.size()));
}

absl::StatusOr<std::string> ChecksumOfSamples(const Dataset& dataset) {
  ContentHash hash;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(const Sample sample, dataset.Read(i));
    for (const auto& [name, tensor] : sample.tensors) {
      // Names and shapes go in as well, or values could move from a tensor or a sample to the next unseen.
      const std::string head = absl::StrCat(i, " ", name, " ", tensor.Describe(), "\n");
      hash.Add(head);
      hash.Add(tensor.data(), static_cast<size_t>(tensor.size_bytes()));
    }
  }
  return absl::StrCat(dataset.size(), " samples with XXH3 ", hash.Hex());
}

std::shared_ptr<Dataset> MakeDataset(std::vector<Sample> samples, std::string length_of) {
  return std::make_shared<MemoryDataset>(std::move(samples), std::move(length_of));
}

}  // namespace distill
