#include "libdistill/data/sequence_dataset.h"

#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/store/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

// Three sequences of 2, 1 and 3 frames of two features, with 1, 0 and 2 symbols.
struct Contents {
  std::vector<float> features = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  std::vector<int64_t> feature_lengths = {2, 1, 3};
  std::vector<int32_t> targets = {7, 8, 9};
  std::vector<int64_t> target_lengths = {1, 0, 2};
};

template <typename T>
TensorView ViewOf(const std::vector<T>& values, std::vector<int64_t> shape) {
  return {.dtype = DTypeOf<T>(),
          .shape = std::move(shape),
          .data = values.data(),
          .size_bytes = static_cast<int64_t>(values.size() * sizeof(T))};
}

std::map<std::string, TensorView> ViewsOf(const Contents& contents) {
  const auto count = [](const auto& values) { return static_cast<int64_t>(values.size()); };
  return {{"features", ViewOf(contents.features, {count(contents.features) / 2, 2})},
          {"feature_lengths", ViewOf(contents.feature_lengths, {count(contents.feature_lengths)})},
          {"targets", ViewOf(contents.targets, {count(contents.targets)})},
          {"target_lengths", ViewOf(contents.target_lengths, {count(contents.target_lengths)})}};
}

std::string Write(const TempFolder& folder, const std::map<std::string, TensorView>& tensors) {
  const std::string path = folder / "s.safetensors";
  REQUIRE(WriteSafetensors(path, tensors, {}).ok());
  return path;
}

TEST_CASE("sequences are views of the mapped file, alive as long as one of them") {
  const TempFolder folder;
  auto data = OpenSequenceDataset(Write(folder, ViewsOf({})));
  INFO(data.status());
  REQUIRE(data.ok());
  CHECK((*data)->size() == 3);
  CHECK((*data)->Length(2).value() == 3);
  const auto one = (*data)->Read(1), last = (*data)->Read(2);
  CHECK((*data)->Read(3).status().code() == absl::StatusCode::kOutOfRange);
  data->reset();
  REQUIRE((one.ok() && last.ok()));
  CHECK(last->id == 2);
  CHECK(*one->Find("features") == HostTensor(std::vector<float>{4, 5}, {1, 2}));
  CHECK(*one->Find("targets") == HostTensor(std::vector<int32_t>{}));
  CHECK(*last->Find("features") == HostTensor(std::vector<float>{6, 7, 8, 9, 10, 11}, {3, 2}));
  CHECK(*last->Find("targets") == HostTensor(std::vector<int32_t>{8, 9}));
}

TEST_CASE("several threads read one file of sequences at a time") {
  Contents contents;
  contents.features.resize(2000);
  std::iota(contents.features.begin(), contents.features.end(), 0.0f);
  contents.feature_lengths.assign(1000, 1);
  contents.target_lengths.assign(1000, 0);
  contents.target_lengths[999] = 3;
  const TempFolder folder;
  const auto data = OpenSequenceDataset(Write(folder, ViewsOf(contents)));
  REQUIRE(data.ok());
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 1000; ++i) {
        const auto sample = (*data)->Read((i * 7 + t) % 1000);
        wrong[t] += !sample.ok() || (*sample->Get<float>("features"))[1] != static_cast<float>(2 * sample->id + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("the fingerprint tells files apart by lengths, targets and frames at the ends of sequences") {
  const TempFolder folder;
  const auto fingerprint = [&](const Contents& contents) {
    const auto data = OpenSequenceDataset(Write(folder, ViewsOf(contents)));
    REQUIRE(data.ok());
    return (*data)->Fingerprint().value();
  };
  Contents contents;
  const std::string expected = fingerprint(contents);
  CHECK(absl::StartsWith(expected, "3 sequences of 2 features with XXH3 "));
  CHECK(fingerprint(Contents()) == expected);
  std::swap(contents.feature_lengths[0], contents.feature_lengths[1]);
  CHECK(fingerprint(contents) != expected);
  contents = {};
  contents.targets[2] = 1;
  CHECK(fingerprint(contents) != expected);
  contents = {};
  contents.features[11] = 0;
  CHECK(fingerprint(contents) != expected);
}

TEST_CASE("a file that is not one of sequences is refused by its path and tensor") {
  const TempFolder folder;
  const auto refuses = [&](std::map<std::string, TensorView> tensors, const std::string& what) {
    const std::string path = Write(folder, tensors);
    const absl::Status status = OpenSequenceDataset(path).status();
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), path + ": " + what));
  };
  const Contents contents;
  auto tensors = ViewsOf(contents);
  tensors.erase("target_lengths");
  refuses(tensors, "there is no tensor 'target_lengths'; a file of sequences has features, feature_lengths");
  tensors = ViewsOf(contents);
  tensors["features"].shape = {12};
  refuses(tensors, "'features' is float32 of 1 dimensions; it needs to be float32 of 2");
  tensors = ViewsOf(contents);
  tensors["targets"].dtype = DType::kFloat32;
  refuses(tensors, "'targets' is float32 of 1 dimensions; it needs to be int32 of 1");
  const std::vector<int64_t> two = {2, 4}, much = {2, 1, 4}, little = {2, 1, 2}, negative = {2, -1, 5},
                             none = {3, 0, 3};
  tensors = ViewsOf(contents);
  tensors["feature_lengths"] = ViewOf(two, {2});
  refuses(tensors, "'feature_lengths' are of 2 samples, but 'target_lengths' of 3");
  for (const auto& [lengths, what] :
       {std::pair<const std::vector<int64_t>&, const char*>{much, "of sample 2 is 4, of 6 in the file, of which 3"},
        {little, "add up to 5, but the file has 6"},
        {negative, "of sample 1 is -1"},
        {none, "of sample 1 is 0"}}) {
    tensors["feature_lengths"] = ViewOf(lengths, {3});
    refuses(tensors, std::string("'feature_lengths' ") + what);
  }
  CHECK(OpenSequenceDataset(folder / "none").status().code() == absl::StatusCode::kNotFound);
  CHECK(OpenSequenceDataset(folder.Write("torn", "torn")).status().code() == absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace distill
