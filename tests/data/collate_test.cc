#include "libdistill/data/collate.h"

#include <vector>

#include "libdistill/data/dataset.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr int32_t kNo = kIgnoreLabel;
using Ids = std::vector<int32_t>;
using Starts = std::vector<std::vector<int64_t>>;

std::shared_ptr<TokenDataset> ThreeSamples() {
  return MakeTokenDataset({{{10, 11, 12, 13}, {0, 0, 1, 1}}, {{20, 21}, {1, 1}}, {{30, 31, 32}, {0, 1, 0}}});
}

TEST_CASE("labels are the next token of the same document, shifted once") {
  const TokenBatch batch = Collate(*ThreeSamples(), std::vector<std::vector<int64_t>>{{0}, {1}, {2}}, 100, 9);
  CHECK(batch.rows == 3);
  CHECK(batch.length == 4);
  CHECK(batch.input_ids == Ids{10, 11, 12, 13, 20, 21, 9, 9, 30, 31, 32, 9});
  CHECK(batch.labels == Ids{kNo, 12, 13, kNo, 21, kNo, kNo, kNo, 31, kNo, kNo, kNo});
  CHECK(batch.document_starts == Starts{{0, 4}, {0, 2}, {0, 3}});
  CHECK(batch.sample_ids == std::vector<int64_t>{0, 1, 2});
  CHECK(batch.num_loss_tokens() == 4);
  CHECK(batch.num_tokens() == 9);
}

TEST_CASE("a packed row keeps its documents apart: none predicts the next one's first token") {
  const TokenBatch batch = Collate(*ThreeSamples(), std::vector<std::vector<int64_t>>{{2, 1}, {0}}, 100, 9);
  CHECK(batch.length == 5);
  CHECK(batch.input_ids == Ids{30, 31, 32, 20, 21, 10, 11, 12, 13, 9});
  CHECK(batch.labels == Ids{31, kNo, kNo, 21, kNo, kNo, 12, 13, kNo, kNo});
  CHECK(batch.document_starts == Starts{{0, 3, 5}, {0, 4}});
  CHECK(batch.sample_ids == std::vector<int64_t>{2, 1, 0});
}

TEST_CASE("a sample is cut at max_length and its last token that is left has no label") {
  const TokenBatch batch = Collate(*ThreeSamples(), std::vector<std::vector<int64_t>>{{0}}, 3, 9);
  CHECK(batch.input_ids == Ids{10, 11, 12});
  CHECK(batch.labels == Ids{kNo, 12, kNo});
  CHECK(batch.document_starts == Starts{{0, 3}});
}

TEST_CASE("a batch without rows is empty") {
  const TokenBatch batch = Collate(*ThreeSamples(), {}, 100, 9);
  CHECK(batch.rows == 0);
  CHECK(batch.length == 0);
  CHECK(batch.input_ids.empty());
  CHECK(batch.labels.empty());
  CHECK(batch.num_tokens() == 0);
  CHECK(batch.num_loss_tokens() == 0);
}

}  // namespace
}  // namespace distill
