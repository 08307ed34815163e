#include "libdistill/store/weights_folder.h"

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

}  // namespace
}  // namespace distill
