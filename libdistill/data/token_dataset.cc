#include "libdistill/data/token_dataset.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// The values of all samples one after another, and where each sample's begin: millions of short samples then cost what
// their tokens do.
template <typename T>
class Joined {
 public:
  explicit Joined(int64_t samples) { begins_.reserve(samples + 1); }
  void Reserve(size_t values) { values_->reserve(values); }
  void Add(const std::vector<T>& values) {
    values_->insert(values_->end(), values.begin(), values.end());
    begins_.push_back(static_cast<int64_t>(values_->size()));
  }
  int64_t LengthOf(int64_t index) const { return begins_[index + 1] - begins_[index]; }
  const T* At(int64_t index) const { return values_->data() + begins_[index]; }
  int64_t Bytes() const {
    return static_cast<int64_t>(values_->capacity() * sizeof(T) + begins_.capacity() * sizeof(int64_t));
  }
  HostTensor Of(int64_t index) const {
    return HostTensor(DTypeOf<T>(), {LengthOf(index)}, std::shared_ptr<const void>(values_, At(index)));
  }

 private:
  std::shared_ptr<std::vector<T>> values_ = std::make_shared<std::vector<T>>();
  std::vector<int64_t> begins_ = {0};
};

class TokensInMemory : public Dataset {
 public:
  explicit TokensInMemory(std::vector<TokenSample> samples)
      : size_(static_cast<int64_t>(samples.size())), ids_(size_), is_target_(size_) {
    size_t ids = 0, marks = 0;
    for (const TokenSample& sample : samples) {
      ids += sample.ids.size();
      marks += sample.is_target.size();
    }
    ids_.Reserve(ids);
    is_target_.Reserve(marks);
    for (TokenSample& sample : samples) {
      const TokenSample taken = std::move(sample);  // its memory goes as its copy comes
      ids_.Add(taken.ids);
      is_target_.Add(taken.is_target);
    }
  }

  int64_t size() const override { return size_; }

  absl::StatusOr<int64_t> Length(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    return ids_.LengthOf(index);
  }

  absl::StatusOr<Sample> Read(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    return Sample{.id = index, .tensors = {{"ids", ids_.Of(index)}, {"is_target", is_target_.Of(index)}}};
  }

  absl::StatusOr<std::string> Fingerprint() const override {
    TokenFingerprint fingerprint;
    for (int64_t i = 0; i < size_; ++i) {
      fingerprint.Add({ids_.At(i), static_cast<size_t>(ids_.LengthOf(i))},
                      {is_target_.At(i), static_cast<size_t>(is_target_.LengthOf(i))});
    }
    return fingerprint.Text();
  }
  int64_t MemoryBytes() const override { return ids_.Bytes() + is_target_.Bytes(); }

 private:
  const int64_t size_;
  Joined<int32_t> ids_;
  Joined<uint8_t> is_target_;
};

}  // namespace

bool HasTarget(const TokenSample& sample) {
  return sample.is_target.size() > 1 &&
         std::any_of(sample.is_target.begin() + 1, sample.is_target.end(), [](uint8_t target) { return target != 0; });
}

// Lengths go in as well, or tokens could move from a sample to the next unseen.
void TokenFingerprint::Add(absl::Span<const int32_t> ids, absl::Span<const uint8_t> is_target) {
  const auto length = static_cast<uint64_t>(ids.size());
  hash_.Add(&length, sizeof(length));
  hash_.Add(ids.data(), ids.size() * sizeof(int32_t));
  hash_.Add(is_target.data(), is_target.size());
  ++samples_;
}

std::string TokenFingerprint::Text() const { return absl::StrCat(samples_, " samples with XXH3 ", hash_.Hex()); }

std::shared_ptr<Dataset> MakeTokenDataset(std::vector<TokenSample> samples) {
  return std::make_shared<TokensInMemory>(std::move(samples));
}

}  // namespace distill
