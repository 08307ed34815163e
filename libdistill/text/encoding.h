// One or two texts as a model's input: ids with what stands beside them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace distill {

enum class Truncation {
  kLongestFirst,  // the longer of two texts loses tokens first
  kOnlyFirst,
  kOnlySecond,
};

struct EncodeOptions {
  bool add_special_tokens = true;  // those of the post-processor: [CLS], [SEP], BOS
  int64_t max_length = 0;          // tokens, special ones too; 0: no limit
  Truncation truncation = Truncation::kLongestFirst;
  int64_t stride = 0;          // tokens that a part cut off repeats of the one before
  bool truncate_left = false;  // the beginning is cut off
  int64_t pad_to = 0;          // shorter ones get pad_id until they are as long; 0: as what is left of the texts
  int64_t pad_to_multiple_of = 0;
  bool pad_left = false;
  int32_t pad_id = 0;
  int32_t pad_type_id = 0;
};

// All lists are as long as ids.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;                     // 0 for the first text, mostly 1 for the second
  std::vector<std::pair<int64_t, int64_t>> offsets;  // bytes [begin, end) of its text; {0, 0} for special tokens
  std::vector<int32_t> words;                        // which word of its text; -1: none
  std::vector<int32_t> texts;                        // 0, 1: of which text; -1: of none
  std::vector<uint8_t> is_special;                   // 1 for what was added: special tokens, padding
  std::vector<uint8_t> attention_mask;               // 0 for padding
  // What was cut off, in parts of the same form, each with special tokens of its own.
  std::vector<Encoding> overflowing;

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};

// Puts `next` behind `encoding`. With parts cut off on both sides, each meets each.
void Append(const Encoding& next, Encoding* encoding);

// At most max_length tokens stay; what is cut off becomes parts of as many, each of which repeats `stride` tokens.
// InvalidArgument: stride is not less than max_length.
[[nodiscard]] absl::Status Truncate(int64_t max_length, const EncodeOptions& options, Encoding* encoding);

// `room` tokens for both together; `second` may be nullptr. InvalidArgument besides: the text that is to be cut is too
// short for it, or not there.
[[nodiscard]] absl::Status TruncateBoth(int64_t room, const EncodeOptions& options, Encoding* first, Encoding* second);

// Padding as `options` say; the parts cut off become as long.
void Pad(const EncodeOptions& options, Encoding* encoding);

}  // namespace distill
