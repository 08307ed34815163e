#include "libdistill/data/collate.h"

#include <algorithm>

namespace distill {
namespace {

int64_t LengthOf(const TokenSample& sample, int64_t max_length) {
  return std::min(static_cast<int64_t>(sample.ids.size()), max_length);
}

}  // namespace

TokenBatch Collate(const TokenDataset& dataset, absl::Span<const std::vector<int64_t>> rows, int64_t max_length,
                   int32_t pad_id) {
  TokenBatch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  for (const std::vector<int64_t>& row : rows) {
    std::vector<int64_t> starts = {0};
    for (const int64_t index : row) {
      starts.push_back(starts.back() + LengthOf(dataset.sample(index), max_length));
      batch.sample_ids.push_back(index);
    }
    batch.length = std::max(batch.length, starts.back());
    batch.document_starts.push_back(std::move(starts));
  }
  batch.input_ids.assign(batch.rows * batch.length, pad_id);
  batch.labels.assign(batch.rows * batch.length, kIgnoreLabel);
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (size_t d = 0; d < rows[r].size(); ++d) {
      const TokenSample& sample = dataset.sample(rows[r][d]);
      const int64_t begin = batch.document_starts[r][d], length = batch.document_starts[r][d + 1] - begin;
      int32_t* ids = batch.input_ids.data() + r * batch.length + begin;
      int32_t* labels = batch.labels.data() + r * batch.length + begin;
      std::copy_n(sample.ids.begin(), length, ids);
      // The shift: position i learns to say what stands at i + 1 in its document.
      for (int64_t i = 0; i + 1 < length; ++i) {
        if (sample.is_target[i + 1] != 0) labels[i] = sample.ids[i + 1];
      }
    }
  }
  return batch;
}

}  // namespace distill
