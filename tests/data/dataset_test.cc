#include "libdistill/data/dataset.h"

#include <vector>

#include "absl/strings/match.h"
#include "libdistill/data/token_dataset.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

HostTensor Floats(std::vector<float> values, std::vector<int64_t> shape) {
  return HostTensor(std::move(values), std::move(shape));
}

std::string FingerprintOf(std::vector<Sample> samples) {
  return MakeDataset(std::move(samples))->Fingerprint().value();
}

TEST_CASE("a host tensor knows its type, shape and values, and its copies share the bytes") {
  const HostTensor matrix = Floats({1, 2, 3, 4, 5, 6}, {2, 3}), scalar(std::vector<int64_t>{7}, {});
  CHECK(matrix.Describe() == "float32 [2, 3]");
  CHECK(matrix.size() == 6);
  CHECK(matrix.size_bytes() == 24);
  CHECK(matrix.values<float>()[5] == 6);
  CHECK(scalar.Describe() == "int64 []");
  CHECK(scalar.values<int64_t>()[0] == 7);
  const HostTensor copy = matrix;
  CHECK(copy.data() == matrix.data());
  CHECK(copy == matrix);
  CHECK_FALSE(matrix == Floats({1, 2, 3, 4, 5, 7}, {2, 3}));
  CHECK_FALSE(matrix == Floats({1, 2, 3, 4, 5, 6}, {3, 2}));
  CHECK_FALSE(HostTensor(std::vector<int32_t>{1}) == HostTensor(std::vector<int64_t>{1}));
  CHECK(HostTensor(std::vector<uint8_t>{}).values<uint8_t>().empty());
  CHECK(HostTensor().size() == 0);
}

TEST_CASE("bytes of another owner live as long as a tensor of them") {
  auto owner = std::make_shared<std::vector<double>>(std::vector<double>{1.5, 2.5});
  const std::weak_ptr<std::vector<double>> watched = owner;
  {
    const HostTensor tensor(DType::kFloat64, {1}, std::shared_ptr<const void>(owner, &(*owner)[1]));
    owner.reset();
    CHECK(tensor.values<double>()[0] == 2.5);
    CHECK_FALSE(watched.expired());
  }
  CHECK(watched.expired());
}

TEST_CASE("samples in memory have their positions as ids, and a tensor's first dimension as length") {
  const auto data = MakeDataset({{.id = 9, .tensors = {{"x", Floats({1, 2, 3, 4}, {2, 2})}}},
                                 {.tensors = {{"x", Floats({5, 6}, {1, 2})}, {"y", Floats({1}, {})}}}},
                                "x");
  CHECK(data->size() == 2);
  CHECK(data->Length(0).value() == 2);
  CHECK(data->Length(1).value() == 1);
  CHECK(data->Read(0)->id == 0);
  CHECK(data->Read(1)->id == 1);
  CHECK((*data->Read(1)->Get<float>("x"))[1] == 6);
  for (const int64_t index : {-1, 2}) {
    CHECK(data->Read(index).status().code() == absl::StatusCode::kOutOfRange);
    CHECK(data->Length(index).status().code() == absl::StatusCode::kOutOfRange);
  }
  CHECK(MakeDataset({{.tensors = {{"x", Floats({1, 2}, {2})}}}})->Length(0).value() == 1);
  CHECK(data->MemoryBytes() == 7 * 4);
}

TEST_CASE("a tensor that is not there, or of another type or shape, is named with its sample") {
  const auto data = MakeDataset({{}, {.tensors = {{"x", Floats({1}, {})}, {"y", Floats({2}, {1})}}}}, "x");
  const auto message = [](const absl::Status& status) {
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK(message(data->Read(0)->Get<float>("x").status()) == "sample 0 has no tensor 'x'; it has none");
  CHECK(message(data->Read(1)->Find("z").status()) == "sample 1 has no tensor 'z'; it has 'x', 'y'");
  CHECK(message(data->Read(1)->Get<int32_t>("y").status()) == "sample 1: 'y' is float32 [1], and is read as int32");
  CHECK(message(data->Length(0).status()) == "sample 0 has no tensor 'x'; it has none");
  CHECK(absl::StrContains(message(data->Length(1).status()), "sample 1: 'x' is float32 []"));
}

TEST_CASE("a fingerprint differs with any value, name, shape, type or border between samples") {
  const auto ids = [](std::vector<int32_t> values) { return HostTensor(std::move(values)); };
  const std::vector<Sample> samples = {{.tensors = {{"ids", ids({1, 2})}}}, {.tensors = {{"ids", ids({3})}}}};
  const std::string expected = FingerprintOf(samples);
  CHECK(absl::StartsWith(expected, "2 samples with XXH3 "));
  CHECK(FingerprintOf(samples) == expected);
  CHECK(FingerprintOf({{.tensors = {{"ids", ids({1})}}}, {.tensors = {{"ids", ids({2, 3})}}}}) != expected);
  CHECK(FingerprintOf({{.tensors = {{"ids", ids({1, 2})}}}, {.tensors = {{"ids", ids({4})}}}}) != expected);
  CHECK(FingerprintOf({{.tensors = {{"ids", ids({1, 2})}}}, {.tensors = {{"id", ids({3})}}}}) != expected);
  CHECK(FingerprintOf({{.tensors = {{"ids", HostTensor(std::vector<int32_t>{1, 2}, {1, 2})}}},
                       {.tensors = {{"ids", ids({3})}}}}) != expected);
  CHECK(FingerprintOf({{.tensors = {{"ids", ids({1, 2})}}},
                       {.tensors = {{"ids", HostTensor(DType::kFloat32, {1}, std::make_shared<const int32_t>(3))}}}}) !=
        expected);
}

TEST_CASE("token samples are read as they were given, one by one, and outlive their data set") {
  auto data = MakeTokenDataset({{{1, 2, 3}, {0, 1, 1}}, {{}, {}}, {{4}, {1, 0}}});
  CHECK(data->size() == 3);
  CHECK(data->Length(0).value() == 3);
  CHECK(data->Length(1).value() == 0);
  CHECK(data->Length(2).value() == 1);
  CHECK(data->Read(3).status().code() == absl::StatusCode::kOutOfRange);
  CHECK(data->MemoryBytes() >= 4 * (4 + 1));  // an id and a mark of each token
  const Sample first = data->Read(0).value(), last = data->Read(2).value();
  data.reset();
  CHECK(last.id == 2);
  CHECK(*first.Find("ids") == HostTensor(std::vector<int32_t>{1, 2, 3}));
  CHECK(*first.Find("is_target") == HostTensor(std::vector<uint8_t>{0, 1, 1}));
  CHECK(*last.Find("ids") == HostTensor(std::vector<int32_t>{4}));
  CHECK(*last.Find("is_target") == HostTensor(std::vector<uint8_t>{1, 0}));
}

TEST_CASE("the fingerprint of token samples differs with any token, mark or border between samples") {
  const auto fingerprint = [](std::vector<TokenSample> samples) {
    return MakeTokenDataset(std::move(samples))->Fingerprint().value();
  };
  const std::string expected = fingerprint({{{1, 2}, {0, 1}}, {{3}, {1}}});
  CHECK(absl::StartsWith(expected, "2 samples with XXH3 "));
  CHECK(fingerprint({{{1, 2}, {0, 1}}, {{3}, {1}}}) == expected);
  CHECK(fingerprint({{{1, 2}, {0, 1}}, {{4}, {1}}}) != expected);
  CHECK(fingerprint({{{1, 2}, {1, 1}}, {{3}, {1}}}) != expected);
  CHECK(fingerprint({{{1}, {0}}, {{2, 3}, {1, 1}}}) != expected);
}

}  // namespace
}  // namespace distill
