// Samples for language models: tensors "ids" (int32 [T]) and "is_target" (uint8 [T], 1 where the loss is taken on
// predicting this token), which Collate (collate.h) makes rows of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "libdistill/data/dataset.h"
#include "libdistill/store/content_hash.h"

namespace distill {

struct TokenSample {
  std::vector<int32_t> ids;
  std::vector<uint8_t> is_target;
};

// Whether any of its tokens is trained. A first token is never predicted, so it is no target of any loss.
bool HasTarget(const TokenSample& sample);

// A fingerprint of samples that come one after the other: the same wherever they are kept.
class TokenFingerprint {
 public:
  void Add(absl::Span<const int32_t> ids, absl::Span<const uint8_t> is_target);
  std::string Text() const;

 private:
  ContentHash hash_;
  int64_t samples_ = 0;
};

// In memory; their length is that of "ids".
std::shared_ptr<Dataset> MakeTokenDataset(std::vector<TokenSample> samples);

}  // namespace distill
