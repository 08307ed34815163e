#include "libdistill/data/token_batch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"
#include "libdistill/text/tokenizer.h"

namespace distill {
namespace {

// One document. The loss is taken on a token when the label before it asks for it.
std::string DescribeDocument(absl::Span<const int32_t> ids, absl::Span<const int32_t> labels,
                             const Tokenizer& tokenizer) {
  const auto has_loss = [labels](size_t i) { return i > 0 && labels[i - 1] != kIgnoreLabel; };
  std::string out;
  for (size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    for (end = begin + 1; end < ids.size() && has_loss(end) == has_loss(begin);) ++end;
    const std::string text = tokenizer.Decode(ids.subspan(begin, end - begin));
    absl::StrAppend(&out, has_loss(begin) ? "  loss | " : "       | ",
                    absl::StrReplaceAll(text, {{"\n", "\\n"}, {"\r", "\\r"}}), "\n");
  }
  return out;
}

}  // namespace

int64_t TokenBatch::num_loss_tokens() const {
  return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label != kIgnoreLabel; });
}

int64_t TokenBatch::num_tokens() const {
  int64_t tokens = 0;
  for (const std::vector<int64_t>& starts : document_starts) tokens += starts.back();
  return tokens;
}

absl::StatusOr<TokenBatches> TokenBatches::Create(std::shared_ptr<const Dataset> dataset, int rank, int world_size,
                                                  const ShardOptions& options, int32_t pad_id) {
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder, DataSharder::Create(std::move(dataset), rank, world_size, options));
  const auto collate = [max_length = options.max_length, pad_id](absl::Span<const SampleRow> rows) {
    return Collate(rows, max_length, pad_id);
  };
  return TokenBatches(std::move(sharder), collate, {{"pad_id", absl::StrCat(pad_id)}});
}

absl::StatusOr<TokenBatches> TokenBatches::CreateMasked(std::shared_ptr<const Dataset> dataset, int rank,
                                                        int world_size, const ShardOptions& options,
                                                        const MlmMasking& masking, int32_t pad_id) {
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder, DataSharder::Create(std::move(dataset), rank, world_size, options));
  Fields fields = masking.Fingerprint();
  fields.emplace_back("pad_id", absl::StrCat(pad_id));
  const auto collate = [max_length = options.max_length, pad_id, masking](const DealtRows& rows) {
    return CollateMasked(rows, masking, max_length, pad_id);
  };
  return TokenBatches(std::move(sharder), collate, std::move(fields));
}

std::string DescribeBatch(const TokenBatch& batch, const Tokenizer& tokenizer) {
  std::string out = absl::StrCat(batch.rows, " rows of up to ", batch.length, " tokens; ", batch.num_tokens(),
                                 " tokens, ", batch.num_loss_tokens(), " of them with loss; samples ",
                                 absl::StrJoin(batch.sample_ids, ", "), "\n");
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto ids = absl::MakeConstSpan(batch.input_ids).subspan(row * batch.length, batch.length);
    const auto labels = absl::MakeConstSpan(batch.labels).subspan(row * batch.length, batch.length);
    const std::vector<int64_t>& starts = batch.document_starts[row];
    for (size_t d = 0; d + 1 < starts.size(); ++d) {
      const int64_t begin = starts[d], length = starts[d + 1] - begin;
      absl::StrAppend(&out, "row ", row, ", tokens ", begin, " to ", begin + length, "\n",
                      DescribeDocument(ids.subspan(begin, length), labels.subspan(begin, length), tokenizer));
    }
  }
  return out;
}

}  // namespace distill
