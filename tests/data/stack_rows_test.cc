#include <vector>

#include "absl/strings/match.h"
#include "libdistill/data/batches.h"
#include "libdistill/data/collate.h"
#include "libdistill/data/dataset.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

template <typename T>
HostTensor Tensor(std::vector<T> values, std::vector<int64_t> shape) {
  return HostTensor(std::move(values), std::move(shape));
}

// Sequences of 2, 1 and 0 frames with labels of 1, 3 and 0 phonemes.
std::vector<SampleRow> Sequences() {
  const auto data = MakeDataset({{.tensors = {{"features", Tensor<float>({1, 2, 3, 4}, {2, 2})},
                                              {"targets", Tensor<int32_t>({7}, {1})},
                                              {"speaker", Tensor<int64_t>({5}, {})}}},
                                 {.tensors = {{"features", Tensor<float>({5, 6}, {1, 2})},
                                              {"targets", Tensor<int32_t>({8, 9, 8}, {3})},
                                              {"speaker", Tensor<int64_t>({6}, {})}}},
                                 {.tensors = {{"features", Tensor<float>({}, {0, 2})},
                                              {"targets", Tensor<int32_t>({}, {0})},
                                              {"speaker", Tensor<int64_t>({4}, {})}}}});
  auto rows = ReadRows(*data, {{1}, {0}, {2}});
  REQUIRE(rows.ok());
  return *std::move(rows);
}

TEST_CASE("sequences are padded on the right, each with its lengths, beside what is stacked") {
  const auto batch = StackRows(Sequences(), {{.name = "features"}, {.name = "targets", .value = -1}});
  INFO(batch.status());
  REQUIRE(batch.ok());
  CHECK(batch->rows() == 3);
  CHECK(batch->sample_ids == std::vector<int64_t>{1, 0, 2});
  CHECK(batch->tensors.size() == 5);
  CHECK(*batch->Find("features") == Tensor<float>({5, 6, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0}, {3, 2, 2}));
  CHECK(*batch->Find("features_lengths") == Tensor<int64_t>({1, 2, 0}, {3}));
  CHECK(*batch->Find("targets") == Tensor<int32_t>({8, 9, 8, 7, -1, -1, -1, -1, -1}, {3, 3}));
  CHECK(*batch->Find("targets_lengths") == Tensor<int64_t>({3, 1, 0}, {3}));
  CHECK(*batch->Find("speaker") == Tensor<int64_t>({6, 5, 4}, {3}));
  CHECK(batch->Count("anything") == 3);
  CHECK(batch->Find("label").status().message() ==
        "the batch has no tensor 'label'; it has 'features', 'features_lengths', 'speaker', 'targets', "
        "'targets_lengths'");
}

TEST_CASE("every element type is padded with its own value") {
  const std::vector<SampleRow> rows = {
      {{.id = 0,
        .tensors = {{"d", Tensor<double>({1}, {1})},
                    {"l", Tensor<int64_t>({1}, {1})},
                    {"b", Tensor<uint8_t>({1}, {1})}}}},
      {{.id = 1,
        .tensors = {
            {"d", Tensor<double>({}, {0})}, {"l", Tensor<int64_t>({}, {0})}, {"b", Tensor<uint8_t>({}, {0})}}}}};
  const auto batch = StackRows(rows, {{"d", 0.5}, {"l", -100}, {"b", 1}});
  REQUIRE(batch.ok());
  CHECK(*batch->Find("d") == Tensor<double>({1, 0.5}, {2, 1}));
  CHECK(*batch->Find("l") == Tensor<int64_t>({1, -100}, {2, 1}));
  CHECK(*batch->Find("b") == Tensor<uint8_t>({1, 1}, {2, 1}));
}

TEST_CASE("a batch without rows is empty, and a count that was set is the loss's") {
  const auto none = StackRows({}, {{"features"}});
  REQUIRE(none.ok());
  CHECK(none->rows() == 0);
  CHECK(none->tensors.empty());
  CHECK(none->Count("loss") == 0);
  const Batch masked{.sample_ids = {3, 4}, .tensors = {}, .counts = {{"mlm", 5}}};
  CHECK(masked.Count("mlm") == 5);
  CHECK(masked.Count("kl") == 2);
}

TEST_CASE("samples that do not fit into one batch are refused by name") {
  const auto refuses = [](const std::vector<SampleRow>& rows, const std::vector<Padding>& padded,
                          const std::string& what) {
    const absl::Status status = StackRows(rows, padded).status();
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), what));
  };
  const auto sample = [](int64_t id, std::map<std::string, HostTensor> tensors) {
    return Sample{.id = id, .tensors = std::move(tensors)};
  };
  const HostTensor two = Tensor<float>({1, 2}, {2}), three = Tensor<float>({1, 2, 3}, {3});
  refuses({{sample(4, {{"x", two}})}, {sample(6, {{"x", three}})}}, {},
          "'x' is float32 [3] in sample 6, but float32 [2] in sample 4: a batch holds tensors of one shape; pad it");
  refuses({{sample(4, {{"x", two}})}, {sample(6, {{"x", Tensor<double>({1, 2}, {2})}})}}, {{"x"}},
          "'x' is float64 [2] in sample 6, but float32 [2] in sample 4: only the first dimension may differ");
  refuses({{sample(4, {{"x", Tensor<float>({1}, {})}})}}, {{"x"}}, "only the first dimension may differ");
  refuses({{sample(4, {{"x", two}})}, {sample(6, {})}}, {}, "sample 6 has no tensor 'x'");
  refuses({{sample(4, {})}, {sample(6, {{"x", two}})}}, {}, "sample 6 has a tensor 'x', which sample 4 lacks");
  refuses({{sample(4, {{"x", two}})}}, {{"y"}}, "sample 4 has no tensor 'y'");
  refuses({{sample(4, {{"x", two}}), sample(5, {{"x", two}})}}, {}, "a row of 2 samples (packing)");
  refuses({{sample(4, {{"x", two}, {"x_lengths", two}})}}, {{"x"}},
          "have a tensor 'x_lengths', which is to be the lengths of 'x'");
}

}  // namespace
}  // namespace distill
