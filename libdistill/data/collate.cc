#include "libdistill/data/collate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::StatusOr<absl::Span<const int32_t>> IdsOf(const Sample& sample) {
  DISTILL_ASSIGN_OR_RETURN(const absl::Span<const int32_t> ids, sample.Get<int32_t>("ids"));
  if (!ids.empty()) return ids;
  return absl::InvalidArgumentError(absl::StrCat("sample ", sample.id, " has no tokens"));
}

// A tensor beside the ids.
template <typename T>
absl::StatusOr<absl::Span<const T>> BesideIds(const Sample& sample, const std::string& name, const std::string& what) {
  DISTILL_ASSIGN_OR_RETURN(const auto ids, IdsOf(sample));
  DISTILL_ASSIGN_OR_RETURN(const auto values, sample.Get<T>(name));
  if (ids.size() == values.size()) return values;
  return absl::InvalidArgumentError(
      absl::StrCat("sample ", sample.id, " has ", ids.size(), " ids, but ", values.size(), " ", what));
}

// Where the documents of a row lie, and how long the batch is.
absl::Status AddRow(const SampleRow& row, int64_t max_length, TokenBatch& batch) {
  std::vector<int64_t> starts = {0};
  for (const Sample& sample : row) {
    DISTILL_ASSIGN_OR_RETURN(const auto ids, IdsOf(sample));
    starts.push_back(starts.back() + std::min(static_cast<int64_t>(ids.size()), max_length));
    batch.sample_ids.push_back(sample.id);
  }
  batch.length = std::max(batch.length, starts.back());
  batch.document_starts.push_back(std::move(starts));
  return absl::OkStatus();
}

// Writes a document's ids and labels, `length` of each; the labels are kIgnoreLabel before.
using WriteDocument =
    absl::FunctionRef<absl::Status(const Sample& sample, int64_t length, int32_t* ids, int32_t* labels)>;

absl::StatusOr<TokenBatch> CollateDocuments(absl::Span<const SampleRow> rows, int64_t max_length, int32_t pad_id,
                                            WriteDocument write) {
  TokenBatch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  for (const SampleRow& row : rows) DISTILL_RETURN_IF_ERROR(AddRow(row, max_length, batch));
  batch.input_ids.assign(batch.rows * batch.length, pad_id);
  batch.labels.assign(batch.rows * batch.length, kIgnoreLabel);
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (size_t d = 0; d < rows[r].size(); ++d) {
      const int64_t begin = batch.document_starts[r][d], length = batch.document_starts[r][d + 1] - begin;
      const int64_t at = r * batch.length + begin;
      DISTILL_RETURN_IF_ERROR(write(rows[r][d], length, batch.input_ids.data() + at, batch.labels.data() + at));
    }
  }
  return batch;
}

}  // namespace

absl::StatusOr<TokenBatch> Collate(absl::Span<const SampleRow> rows, int64_t max_length, int32_t pad_id) {
  // First, so that the first sample with anything wrong is the one that is named.
  for (const SampleRow& row : rows) {
    for (const Sample& sample : row) {
      DISTILL_RETURN_IF_ERROR(BesideIds<uint8_t>(sample, "is_target", "target marks").status());
    }
  }
  const auto write = [](const Sample& sample, int64_t length, int32_t* ids, int32_t* labels) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto tokens, IdsOf(sample));
    DISTILL_ASSIGN_OR_RETURN(const auto is_target, BesideIds<uint8_t>(sample, "is_target", "target marks"));
    std::copy_n(tokens.begin(), length, ids);
    // The shift: position i learns to say what stands at i + 1 in its document.
    for (int64_t i = 0; i + 1 < length; ++i) {
      if (is_target[i + 1] != 0) labels[i] = tokens[i + 1];
    }
    return absl::OkStatus();
  };
  return CollateDocuments(rows, max_length, pad_id, write);
}

absl::StatusOr<TokenBatch> CollateMasked(const DealtRows& rows, const MlmMasking& masking, int64_t max_length,
                                         int32_t pad_id) {
  const auto write = [&](const Sample& sample, int64_t length, int32_t* ids, int32_t* labels) -> absl::Status {
    MlmText text;
    DISTILL_ASSIGN_OR_RETURN(text.ids, IdsOf(sample));
    if (sample.tensors.count("is_special") > 0) {
      DISTILL_ASSIGN_OR_RETURN(text.is_special, BesideIds<uint8_t>(sample, "is_special", "marks of special tokens"));
    }
    if (sample.tensors.count("words") > 0) {
      DISTILL_ASSIGN_OR_RETURN(text.words, BesideIds<int32_t>(sample, "words", "numbers of words"));
    }
    text.ids = text.ids.first(static_cast<size_t>(length));
    DISTILL_ASSIGN_OR_RETURN(const MaskedTokens masked, masking.Mask(text, rows.epoch, sample.id));
    std::copy(masked.ids.begin(), masked.ids.end(), ids);
    std::copy(masked.labels.begin(), masked.labels.end(), labels);
    return absl::OkStatus();
  };
  return CollateDocuments(rows, max_length, pad_id, write);
}

}  // namespace distill
