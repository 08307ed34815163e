#include "libdistill/data/collate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

struct Tokens {
  absl::Span<const int32_t> ids;
  absl::Span<const uint8_t> is_target;
};

absl::StatusOr<Tokens> TokensOf(const Sample& sample) {
  Tokens tokens;
  DISTILL_ASSIGN_OR_RETURN(tokens.ids, sample.Get<int32_t>("ids"));
  DISTILL_ASSIGN_OR_RETURN(tokens.is_target, sample.Get<uint8_t>("is_target"));
  if (tokens.ids.empty()) return absl::InvalidArgumentError(absl::StrCat("sample ", sample.id, " has no tokens"));
  if (tokens.ids.size() == tokens.is_target.size()) return tokens;
  return absl::InvalidArgumentError(absl::StrCat("sample ", sample.id, " has ", tokens.ids.size(), " ids, but ",
                                                 tokens.is_target.size(), " target marks"));
}

// Where the documents of a row lie, and how long the batch is.
absl::Status AddRow(const SampleRow& row, int64_t max_length, TokenBatch& batch) {
  std::vector<int64_t> starts = {0};
  for (const Sample& sample : row) {
    DISTILL_ASSIGN_OR_RETURN(const Tokens tokens, TokensOf(sample));
    starts.push_back(starts.back() + std::min(static_cast<int64_t>(tokens.ids.size()), max_length));
    batch.sample_ids.push_back(sample.id);
  }
  batch.length = std::max(batch.length, starts.back());
  batch.document_starts.push_back(std::move(starts));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenBatch> Collate(absl::Span<const SampleRow> rows, int64_t max_length, int32_t pad_id) {
  TokenBatch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  for (const SampleRow& row : rows) DISTILL_RETURN_IF_ERROR(AddRow(row, max_length, batch));
  batch.input_ids.assign(batch.rows * batch.length, pad_id);
  batch.labels.assign(batch.rows * batch.length, kIgnoreLabel);
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (size_t d = 0; d < rows[r].size(); ++d) {
      DISTILL_ASSIGN_OR_RETURN(const Tokens tokens, TokensOf(rows[r][d]));
      const int64_t begin = batch.document_starts[r][d], length = batch.document_starts[r][d + 1] - begin;
      int32_t* ids = batch.input_ids.data() + r * batch.length + begin;
      int32_t* labels = batch.labels.data() + r * batch.length + begin;
      std::copy_n(tokens.ids.begin(), length, ids);
      // The shift: position i learns to say what stands at i + 1 in its document.
      for (int64_t i = 0; i + 1 < length; ++i) {
        if (tokens.is_target[i + 1] != 0) labels[i] = tokens.ids[i + 1];
      }
    }
  }
  return batch;
}

}  // namespace distill
