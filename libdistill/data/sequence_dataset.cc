#include "libdistill/data/sequence_dataset.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/safetensors.h"

namespace distill {
namespace {

constexpr char kFeatures[] = "features", kTargets[] = "targets";
constexpr char kFeatureLengths[] = "feature_lengths", kTargetLengths[] = "target_lengths";

// Where each sample's part of a tensor begins, along its first dimension, and where the last one ends.
absl::StatusOr<std::vector<int64_t>> BeginsOf(const TensorView& lengths, int64_t total, const std::string& name,
                                              int64_t least) {
  std::vector<int64_t> begins = {0};
  const auto* values = static_cast<const int64_t*>(lengths.data);
  for (int64_t i = 0; i < lengths.shape[0]; ++i) {
    if (values[i] < least || values[i] > total - begins.back()) {
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' of sample ", i, " is ", values[i], ", of ", total,
                                                     " in the file, of which ", begins.back(), " are taken"));
    }
    begins.push_back(begins.back() + values[i]);
  }
  if (begins.back() == total) return begins;
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' add up to ", begins.back(), ", but the file has ", total));
}

absl::StatusOr<TensorView> FindView(const SafetensorsFile& file, const std::string& name, DType dtype, size_t rank) {
  const TensorView* view = file.Find(name);
  if (view == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("there is no tensor '", name, "'; a file of sequences has ",
                                                   kFeatures, ", ", kFeatureLengths, ", ", kTargets, " and ",
                                                   kTargetLengths));
  }
  if (view->dtype == dtype && view->shape.size() == rank) {
    DISTILL_ASSIGN_OR_RETURN(TensorView loaded, file.Load(name));
    if (reinterpret_cast<uintptr_t>(loaded.data) % SizeOf(dtype) == 0) return loaded;
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' does not begin at a multiple of ", SizeOf(dtype),
                                                   " bytes in the file: write wider tensors first"));
  }
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is ", NameOf(view->dtype), " of ", view->shape.size(),
                                                 " dimensions; it needs to be ", NameOf(dtype), " of ", rank));
}

class SequenceDataset : public Dataset {
 public:
  explicit SequenceDataset(SafetensorsFile file) : file_(std::make_shared<const SafetensorsFile>(std::move(file))) {}

  absl::Status Prepare() {
    DISTILL_ASSIGN_OR_RETURN(features_, FindView(*file_, kFeatures, DType::kFloat32, 2));
    DISTILL_ASSIGN_OR_RETURN(targets_, FindView(*file_, kTargets, DType::kInt32, 1));
    DISTILL_ASSIGN_OR_RETURN(const TensorView frames, FindView(*file_, kFeatureLengths, DType::kInt64, 1));
    DISTILL_ASSIGN_OR_RETURN(const TensorView symbols, FindView(*file_, kTargetLengths, DType::kInt64, 1));
    if (frames.shape[0] != symbols.shape[0]) {
      return absl::InvalidArgumentError(absl::StrCat("'", kFeatureLengths, "' are of ", frames.shape[0],
                                                     " samples, but '", kTargetLengths, "' of ", symbols.shape[0]));
    }
    DISTILL_ASSIGN_OR_RETURN(frames_, BeginsOf(frames, features_.shape[0], kFeatureLengths, /*least=*/1));
    DISTILL_ASSIGN_OR_RETURN(symbols_, BeginsOf(symbols, targets_.shape[0], kTargetLengths, /*least=*/0));
    return absl::OkStatus();
  }

  int64_t size() const override { return static_cast<int64_t>(frames_.size()) - 1; }

  absl::StatusOr<int64_t> Length(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    return frames_[index + 1] - frames_[index];
  }

  absl::StatusOr<Sample> Read(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    const int64_t width = features_.shape[1];
    return Sample{.id = index,
                  .tensors = {{kFeatures, View(Frame(frames_[index]), DType::kFloat32,
                                               {frames_[index + 1] - frames_[index], width})},
                              {kTargets, View(static_cast<const int32_t*>(targets_.data) + symbols_[index],
                                              DType::kInt32, {symbols_[index + 1] - symbols_[index]})}}};
  }

  absl::StatusOr<std::string> Fingerprint() const override {
    ContentHash hash;
    for (const std::vector<int64_t>* begins : {&frames_, &symbols_}) {
      hash.Add(begins->data(), begins->size() * sizeof(int64_t));
    }
    hash.Add(targets_.data, static_cast<size_t>(targets_.size_bytes));
    const size_t frame_bytes = static_cast<size_t>(features_.shape[1]) * sizeof(float);
    for (int64_t i = 0; i < size(); ++i) {
      hash.Add(Frame(frames_[i]), frame_bytes);
      hash.Add(Frame(frames_[i + 1] - 1), frame_bytes);
    }
    return absl::StrCat(size(), " sequences of ", features_.shape[1], " features with XXH3 ", hash.Hex());
  }

 private:
  const float* Frame(int64_t frame) const {
    return static_cast<const float*>(features_.data) + frame * features_.shape[1];
  }
  // The tensor keeps the mapping alive, also when this data set is gone.
  HostTensor View(const void* data, DType dtype, std::vector<int64_t> shape) const {
    return HostTensor(dtype, std::move(shape), std::shared_ptr<const void>(file_, data));
  }

  std::shared_ptr<const SafetensorsFile> file_;
  TensorView features_, targets_;
  std::vector<int64_t> frames_, symbols_;  // where each sample begins; one more for the end
};

}  // namespace

absl::StatusOr<std::shared_ptr<Dataset>> OpenSequenceDataset(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
  auto dataset = std::make_shared<SequenceDataset>(std::move(file));
  DISTILL_RETURN_IF_ERROR(Annotate(dataset->Prepare(), path));
  return dataset;
}

}  // namespace distill
