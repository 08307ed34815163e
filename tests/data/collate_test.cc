#include "libdistill/data/collate.h"

#include <vector>

#include "absl/strings/match.h"
#include "libdistill/data/batches.h"
#include "libdistill/data/token_dataset.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr int32_t kNo = kIgnoreLabel;
using Ids = std::vector<int32_t>;
using Starts = std::vector<std::vector<int64_t>>;

std::shared_ptr<Dataset> ThreeSamples() {
  return MakeTokenDataset({{{10, 11, 12, 13}, {0, 0, 1, 1}}, {{20, 21}, {1, 1}}, {{30, 31, 32}, {0, 1, 0}}});
}

absl::StatusOr<TokenBatch> TryCollate(const Dataset& dataset, const IndexRows& indices, int64_t max_length = 100) {
  const auto rows = ReadRows(dataset, indices);
  REQUIRE(rows.ok());
  return Collate(*rows, max_length, 9);
}

TokenBatch CollateThree(const IndexRows& indices, int64_t max_length = 100) {
  auto batch = TryCollate(*ThreeSamples(), indices, max_length);
  REQUIRE(batch.ok());
  return *std::move(batch);
}

TEST_CASE("labels are the next token of the same document, shifted once") {
  const TokenBatch batch = CollateThree({{0}, {1}, {2}});
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
  const TokenBatch batch = CollateThree({{2, 1}, {0}});
  CHECK(batch.length == 5);
  CHECK(batch.input_ids == Ids{30, 31, 32, 20, 21, 10, 11, 12, 13, 9});
  CHECK(batch.labels == Ids{31, kNo, kNo, 21, kNo, kNo, 12, 13, kNo, kNo});
  CHECK(batch.document_starts == Starts{{0, 3, 5}, {0, 4}});
  CHECK(batch.sample_ids == std::vector<int64_t>{2, 1, 0});
}

TEST_CASE("a sample is cut at max_length and its last token that is left has no label") {
  const TokenBatch batch = CollateThree({{0}}, 3);
  CHECK(batch.input_ids == Ids{10, 11, 12});
  CHECK(batch.labels == Ids{kNo, 12, kNo});
  CHECK(batch.document_starts == Starts{{0, 3}});
}

TEST_CASE("a batch without rows is empty") {
  const TokenBatch batch = CollateThree({});
  CHECK(batch.rows == 0);
  CHECK(batch.length == 0);
  CHECK(batch.input_ids.empty());
  CHECK(batch.labels.empty());
  CHECK(batch.num_tokens() == 0);
  CHECK(batch.num_loss_tokens() == 0);
}

TEST_CASE("what is wrong with a sample is said with its number") {
  const auto refuses = [](std::shared_ptr<Dataset> dataset, const std::string& what) {
    const absl::Status status = TryCollate(*dataset, {{0}, {1}}).status();
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), what));
  };
  refuses(MakeTokenDataset({{{1}, {1}}, {{}, {}}}), "sample 1 has no tokens");
  refuses(MakeTokenDataset({{{1}, {1}}, {{1}, {}}}), "sample 1 has 1 ids, but 0 target marks");
  const HostTensor ids(std::vector<int32_t>{1}), marks(std::vector<uint8_t>{1}), wide(std::vector<int64_t>{1});
  refuses(MakeDataset({{.tensors = {{"ids", ids}, {"label", marks}}}, {}}),
          "sample 0 has no tensor 'is_target'; it has 'ids', 'label'");
  refuses(MakeDataset({{.tensors = {{"ids", wide}, {"is_target", marks}}}, {}}),
          "sample 0: 'ids' is int64 [1], and is read as int32");
}

}  // namespace
}  // namespace distill
