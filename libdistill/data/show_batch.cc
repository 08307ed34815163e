#include "libdistill/data/show_batch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace distill {
namespace {

// Tokens [begin, end) of one document. A token is a target when the label before it asks for it.
std::string MarkedText(const int32_t* ids, const int32_t* labels, int64_t length, const Tokenizer& tokenizer) {
  std::string text;
  for (int64_t begin = 0; begin < length;) {
    const auto is_target = [labels](int64_t i) { return i > 0 && labels[i - 1] != kIgnoreLabel; };
    int64_t end = begin + 1;
    while (end < length && is_target(end) == is_target(begin)) ++end;
    const std::string part = absl::StrReplaceAll(
        tokenizer.Decode(absl::MakeConstSpan(ids + begin, static_cast<size_t>(end - begin))), {{"\n", "\\n"}});
    is_target(begin) ? absl::StrAppend(&text, "[[", part, "]]") : absl::StrAppend(&text, part);
    begin = end;
  }
  return text;
}

}  // namespace

std::string DescribeBatch(const TokenBatch& batch, const Tokenizer& tokenizer) {
  std::string out = absl::StrCat("batch: ", batch.rows, " x ", batch.length, ", ", batch.num_tokens(), " tokens, ",
                                 batch.num_loss_tokens(), " with loss (between [[ and ]])\n");
  size_t sample = 0;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const std::vector<int64_t>& starts = batch.document_starts[row];
    for (size_t d = 0; d + 1 < starts.size(); ++d) {
      const int64_t offset = row * batch.length + starts[d], length = starts[d + 1] - starts[d];
      const int32_t* labels = batch.labels.data() + offset;
      const auto targets = std::count_if(labels, labels + length, [](int32_t label) { return label != kIgnoreLabel; });
      absl::StrAppend(&out, "row ", row, ", document ", d, " (sample ", batch.sample_ids[sample++], "): ", length,
                      " tokens, ", targets, " with loss\n",
                      MarkedText(batch.input_ids.data() + offset, labels, length, tokenizer), "\n");
    }
  }
  return out;
}

}  // namespace distill
