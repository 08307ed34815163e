#include "libdistill/store/weights_folder.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "libdistill/store/safetensors.h"
#include "tests/store/torch_files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;
using testing::TensorOf;
using testing::TorchZip;

TensorView ViewOf(const std::vector<float>& values) {
  return {.dtype = DType::kFloat32,
          .shape = {static_cast<int64_t>(values.size())},
          .data = values.data(),
          .size_bytes = static_cast<int64_t>(values.size() * sizeof(float))};
}

float FirstOf(const WeightsFolder& weights, const std::string& name) {
  const auto view = weights.Load(name);
  INFO(view.status());
  REQUIRE(view.ok());
  return *static_cast<const float*>(view->data);
}

TEST_CASE("a folder is read through its index, and an index that lies is DataLoss") {
  const TempFolder folder;
  const std::vector<float> a = {1}, b = {2};
  REQUIRE(WriteSafetensors(folder / "one.safetensors", {{"a", ViewOf(a)}}, {}).ok());
  REQUIRE(WriteSafetensors(folder / "two.safetensors", {{"b", ViewOf(b)}}, {}).ok());
  CHECK(WeightsFolder::Open(folder.path()).status().code() == absl::StatusCode::kNotFound);
  const std::string index = folder / "model.safetensors.index.json";
  folder.Write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const auto open = WeightsFolder::Open(folder.path());
  INFO(open.status());
  REQUIRE(open.ok());
  CHECK(open->Names() == std::vector<std::string>{"a", "b"});
  CHECK(FirstOf(*open, "b") == 2);
  CHECK(open->FileOf("b") == folder / "two.safetensors");
  CHECK(open->Find("c") == nullptr);
  for (const std::string map :
       {R"({"a":"one.safetensors","b":"one.safetensors"})", R"({"a":"../one.safetensors"})", R"({"a":".."})",
        R"({"a":1})", R"([])", R"({"a":"one.safetensors","a":"one.safetensors"})"}) {
    folder.Write("model.safetensors.index.json", "{\"weight_map\":" + map + "}");
    CHECK(WeightsFolder::Open(folder.path()).status().code() == absl::StatusCode::kDataLoss);
  }
  // A tensor that the index forgets would be lost without a word.
  const std::vector<float> both = {1, 2};
  REQUIRE(WriteSafetensors(folder / "one.safetensors", {{"a", ViewOf(a)}, {"lost", ViewOf(both)}}, {}).ok());
  folder.Write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors"}})");
  CHECK(absl::StrContains(WeightsFolder::Open(folder.path()).status().message(), "lost"));
  folder.Write("model.safetensors.index.json", R"({"weight_map":{"a":"gone.safetensors"}})");
  const absl::Status gone = WeightsFolder::Open(folder.path()).status();
  CHECK(gone.code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(gone.message(), folder / "gone.safetensors"));
  CHECK(absl::StrContains(gone.message(), index));
}

TEST_CASE("pytorch_model.bin is read where there are no safetensors, whole or by its index") {
  const TempFolder folder;
  CHECK_FALSE(WeightsFolder::IsIn(folder.path()));
  folder.Write("one.bin", TorchZip({TensorOf("a", {1, 2})}));
  folder.Write("two.bin", TorchZip({TensorOf("b", {3})}));
  const std::string map = R"({"weight_map":{"a":"one.bin","b":"two.bin"}})";
  const std::string index = folder.Write("pytorch_model.bin.index.json", map);
  CHECK(WeightsFolder::IsIn(folder.path()));
  const auto open = WeightsFolder::Open(folder.path());
  INFO(open.status());
  REQUIRE(open.ok());
  CHECK(open->Names() == std::vector<std::string>{"a", "b"});
  CHECK(FirstOf(*open, "b") == 3);
  CHECK(open->Load("c").status().code() == absl::StatusCode::kNotFound);
  folder.Write("pytorch_model.bin.index.json", absl::StrReplaceAll(map, {{"two", "one"}}));
  CHECK(absl::StrContains(WeightsFolder::Open(folder.path()).status().message(), "tensor \"b\" is not in"));
  folder.Write("pytorch_model.bin", TorchZip({TensorOf("whole", {4})}));
  CHECK(FirstOf(*WeightsFolder::Open(folder.path()), "whole") == 4);
  const std::vector<float> safe = {5};
  REQUIRE(WriteSafetensors(folder / "model.safetensors", {{"safe", ViewOf(safe)}}, {}).ok());
  const auto first = WeightsFolder::Open(folder.path());
  CHECK(first->Names() == std::vector<std::string>{"safe"});
}

// A file of a weight of eight bits, [4, 6] of ones, and of scales of this shape.
std::string EightBits(const std::string& shape, const std::string& scales, const std::string& type = "F32") {
  const std::string header = absl::StrReplaceAll(
      R"({"w":{"dtype":"F8_E4M3","shape":SHAPE,"data_offsets":[0,24]},"input_scale.input_scale":{"dtype":"F32",)"
      R"("shape":[],"data_offsets":[24,28]},"w_scale":{"dtype":"TYPE","shape":SCALES,"data_offsets":[28,52]}})",
      {{"SHAPE", shape}, {"SCALES", scales}, {"TYPE", type}});
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size() & 0xff);
  bytes[1] = static_cast<char>(header.size() >> 8);
  bytes += header + std::string(24, '\x38') + std::string(4, '\0');
  for (const float scale : {2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F}) {
    bytes.append(reinterpret_cast<const char*>(&scale), sizeof(scale));
  }
  return bytes;
}

TEST_CASE("weights of eight bits are multiplied by the scales of their blocks, which are no tensors then") {
  const TempFolder folder;
  folder.Write("model.safetensors", EightBits("[4, 6]", "[2, 3]"));
  auto weights = WeightsFolder::Open(folder.path());
  REQUIRE(weights.ok());
  CHECK(weights->Find("w")->dtype == DType::kBFloat16);  // the numbers as they are
  REQUIRE(weights->Scale(ScaledBlock{2, 2}).ok());
  CHECK(weights->Names() == std::vector<std::string>{"w"});
  CHECK(weights->Find("w_scale") == nullptr);
  CHECK(weights->Find("w")->size_bytes == 4 * 6 * 4);
  const auto view = weights->Load("w");
  REQUIRE(view.ok());
  const auto* values = static_cast<const float*>(view->data);
  const std::vector<float> row = {2, 2, 3, 3, 4, 4};
  CHECK(std::vector<float>(values, values + 6) == row);
  CHECK(std::vector<float>(values + 6, values + 12) == row);
  CHECK(std::vector<float>(values + 18, values + 24) == std::vector<float>{5, 5, 6, 6, 7, 7});
}

TEST_CASE("a folder in which a save waits to be completed says so where no model is found") {
  const TempFolder folder;
  CHECK_FALSE(absl::StrContains(WeightsFolder::Open(folder.path()).status().message(), ".model.new"));
  folder.Write(".model.new/config.json", "{}");
  const absl::Status missing = WeightsFolder::Open(folder.path()).status();
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(missing.message(), folder / ".model.new is a save of a model that was interrupted"));
}

TEST_CASE("scales that fit no weight are refused with tensor and shapes") {
  const TempFolder folder;
  const auto refused = [&](const std::string& file, std::optional<ScaledBlock> block) {
    folder.Write("model.safetensors", file);
    const absl::Status status = WeightsFolder::Open(folder.path())->Scale(block);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK_THAT(refused(EightBits("[4, 6]", "[2, 3]"), std::nullopt), Catch::Contains("model.safetensors: tensor \"w\"") &&
                                                                       Catch::Contains("[4, 6]") &&
                                                                       Catch::Contains("[2, 3]"));
  CHECK_THAT(refused(EightBits("[4, 6]", "[3, 2]"), ScaledBlock{2, 2}), Catch::Contains("block of 2 x 2"));
  CHECK_THAT(refused(EightBits("[2, 2, 6]", "[6]"), std::nullopt), Catch::Contains("only matrices"));
  CHECK_THAT(refused(absl::StrReplaceAll(EightBits("[4, 6]", "[6]"), {{"\"w_scale", "\"v_scale"}}), std::nullopt),
             Catch::Contains("no \"w_scale\""));
  folder.Write("model.safetensors", EightBits("[3, 8]", "[3]", "I64"));
  auto weights = WeightsFolder::Open(folder.path());
  REQUIRE(weights->Scale(std::nullopt).ok());
  CHECK_THAT(std::string(weights->Load("w").status().message()), Catch::Contains("its scales are int64"));
}

}  // namespace
}  // namespace distill
