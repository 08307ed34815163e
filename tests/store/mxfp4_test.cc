#include "libdistill/store/mxfp4.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "libdistill/store/safetensors.h"
#include "libdistill/store/weights_folder.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;
using PackedBytes = std::vector<uint8_t>;

TensorView ViewOf(const PackedBytes& bytes, std::vector<int64_t> shape) {
  return {.dtype = DType::kUInt8,
          .shape = std::move(shape),
          .data = bytes.data(),
          .size_bytes = static_cast<int64_t>(bytes.size())};
}

float ValueAt(const TensorView& view, int64_t index) {
  const uint32_t bits = uint32_t{static_cast<const uint16_t*>(view.data)[index]} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// By the definition: (-1)^sign 2^(exponent - 1) 1.mantissa, below that 0.mantissa, times 2^(scale - 127).
double Reference(int code, int scale) {
  if (scale == 255) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = (code >> 1) & 3, mantissa = code & 1;
  const double magnitude = exponent == 0 ? 0.5 * mantissa : std::ldexp(1 + 0.5 * mantissa, exponent - 1);
  return std::ldexp((code & 8) != 0 ? -magnitude : magnitude, scale - 127);
}

bool IsSame(float value, double expected) {
  if (std::isnan(expected)) return std::isnan(value);
  return value == static_cast<float>(expected) && std::signbit(value) == std::signbit(expected);
}

TEST_CASE("every number of four bits times every scale is its value, exactly") {
  // A row for each scale: each number once in the lower half of a byte, and once in the upper.
  PackedBytes blocks, scales;
  for (int scale = 0; scale < 256; ++scale) {
    scales.push_back(static_cast<uint8_t>(scale));
    for (int code = 0; code < 16; ++code) blocks.push_back(static_cast<uint8_t>(code | ((15 - code) << 4)));
  }
  const auto made = DequantiseMxfp4(ViewOf(blocks, {1, 256, 1, 16}), ViewOf(scales, {1, 256, 1}));
  INFO(made.status());
  REQUIRE(made.ok());
  CHECK(made->dtype == DType::kBFloat16);
  CHECK(made->shape == std::vector<int64_t>{1, 32, 256});
  CHECK(made->size_bytes == 32 * 256 * 2);
  for (int scale = 0; scale < 256; ++scale) {
    for (int code = 0; code < 16; ++code) {
      INFO("code " << code << ", scale " << scale);
      REQUIRE(IsSame(ValueAt(*made, 2 * code * 256 + scale), Reference(code, scale)));
      REQUIRE(IsSame(ValueAt(*made, (2 * code + 1) * 256 + scale), Reference(15 - code, scale)));
    }
  }
}

TEST_CASE("rows become columns of each expert, whatever their numbers are") {
  std::mt19937 random(1);
  for (const auto& [experts, rows, groups] : std::vector<std::array<int64_t, 3>>{
           {3, 5, 2}, {1, 64, 1}, {2, 65, 3}, {1, 1, 1}, {2, 130, 1}, {0, 4, 2}, {2, 0, 1}}) {
    INFO(experts << " x " << rows << " x " << groups);
    PackedBytes blocks(static_cast<size_t>(experts * rows * groups * 16)), scales(blocks.size() / 16);
    for (uint8_t& byte : blocks) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : scales) byte = static_cast<uint8_t>(120 + random() % 10);
    const auto made =
        DequantiseMxfp4(ViewOf(blocks, {experts, rows, groups, 16}), ViewOf(scales, {experts, rows, groups}));
    REQUIRE(made.ok());
    CHECK(made->shape == std::vector<int64_t>{experts, 32 * groups, rows});
    int64_t wrong = 0, at = 0;
    for (int64_t expert = 0; expert < experts; ++expert) {
      for (int64_t column = 0; column < 32 * groups; ++column) {
        for (int64_t row = 0; row < rows; ++row, ++at) {
          const int64_t element = (expert * rows + row) * 32 * groups + column;
          const int byte = blocks[static_cast<size_t>(element / 2)], scale = scales[static_cast<size_t>(element / 32)];
          wrong += !IsSame(ValueAt(*made, at), Reference(element % 2 == 0 ? byte & 15 : byte >> 4, scale));
        }
      }
    }
    CHECK(wrong == 0);
  }
}

// "w" of 2 experts with 3 rows of 32 columns, and another tensor.
struct Folder {
  Folder() : blocks(2 * 3 * 16, 0x42), scales{128, 128, 128, 125, 126, 127} {
    tensors = {{"w_blocks", ViewOf(blocks, {2, 3, 1, 16})},
               {"w_scales", ViewOf(scales, {2, 3, 1})},
               {"other", ViewOf(scales, {6})}};
  }
  WeightsFolder Open() const {
    REQUIRE(WriteSafetensors(folder / "model.safetensors", tensors, {}).ok());
    auto weights = WeightsFolder::Open(folder.path());
    INFO(weights.status());
    REQUIRE(weights.ok());
    return *std::move(weights);
  }
  std::string Refusal() const {
    const absl::Status status = Open().Unpack();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  TempFolder folder;
  PackedBytes blocks, scales;
  std::map<std::string, TensorView> tensors;
};

TEST_CASE("blocks and scales of a folder are one tensor") {
  const Folder made;
  WeightsFolder weights = made.Open();
  REQUIRE(weights.Unpack().ok());
  CHECK(weights.Names() == std::vector<std::string>{"other", "w"});
  CHECK(weights.Find("w_blocks") == nullptr);
  CHECK(weights.Find("w_scales") == nullptr);
  REQUIRE(weights.Find("w") != nullptr);
  CHECK(weights.Find("w")->dtype == DType::kBFloat16);
  CHECK(weights.Find("w")->shape == std::vector<int64_t>{2, 32, 3});
  CHECK(weights.FileOf("w") == made.folder / "model.safetensors");
  const auto view = weights.Load("w");
  REQUIRE(view.ok());
  CHECK(ValueAt(*view, 0) == 2);  // 1 and 2, times 2
  CHECK(ValueAt(*view, 3) == 4);
  weights.Forget("w");
  std::vector<float> parts, whole;
  const auto add_to = [](std::vector<float>& values, const TensorView& view) {
    for (int64_t i = 0; i < view.size_bytes / 2; ++i) values.push_back(ValueAt(view, i));
  };
  add_to(whole, *view);
  int64_t count = 0;
  REQUIRE(weights
              .LoadInParts("w",
                           [&](const TensorView& part) {
                             CHECK(part.shape == std::vector<int64_t>{1, 32, 3});
                             add_to(parts, part);
                             ++count;
                             return absl::OkStatus();
                           })
              .ok());
  CHECK(count == 2);
  CHECK(parts == whole);
  const absl::Status error = absl::CancelledError("enough");
  CHECK(weights.LoadInParts("w", [&](const TensorView& /*part*/) { return error; }) == error);
  CHECK(weights.LoadInParts("none", [&](const TensorView& /*part*/) { return error; }).code() ==
        absl::StatusCode::kNotFound);
}

TEST_CASE("blocks and scales that do not belong together are one error with file and tensor") {
  const auto refused = [](const std::string& tensor, std::initializer_list<const char*> words, const auto& change) {
    Folder made;
    change(made);
    const std::string message = made.Refusal();
    CHECK_THAT(message, Catch::Contains("model.safetensors: tensor \"" + tensor + "\": "));
    for (const char* word : words) CHECK_THAT(message, Catch::Contains(word));
  };
  refused("w_blocks", {"no \"w_scales\"", "fetch"}, [](Folder& made) { made.tensors.erase("w_scales"); });
  refused("w_scales", {"no \"w_blocks\"", "fetch"}, [](Folder& made) { made.tensors.erase("w_blocks"); });
  refused("w_blocks", {"as \"w\", too"}, [](Folder& made) { made.tensors["w"] = made.tensors["other"]; });
  refused("w_blocks", {"[2, 6, 8]", "[experts, rows, groups, 16]"}, [](Folder& made) {
    made.tensors["w_blocks"].shape = {2, 6, 8};
  });
  refused("w_blocks", {"[2, 3, 2, 8]"}, [](Folder& made) { made.tensors["w_blocks"].shape = {2, 3, 2, 8}; });
  refused("w_blocks", {"[3, 2, 1]"}, [](Folder& made) { made.tensors["w_scales"].shape = {3, 2, 1}; });
  refused("w_blocks", {"float32 [2, 3, 1]", "uint8"}, [](Folder& made) {
    static const std::vector<float> factors(6, 1);
    made.tensors["w_scales"] = {.dtype = DType::kFloat32, .shape = {2, 3, 1}, .data = factors.data(), .size_bytes = 24};
  });
}

}  // namespace
}  // namespace distill
