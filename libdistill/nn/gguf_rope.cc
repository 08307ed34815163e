#include "libdistill/nn/gguf_rope.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_fields.h"

namespace distill {
namespace {

using nlohmann::ordered_json;

constexpr char kScaling[] = "rope.scaling.";
// Tables of factors of the rotation's frequencies.
constexpr char kFactors[] = "rope_freqs.weight";
constexpr char kLongFactors[] = "rope_factors_long.weight", kShortFactors[] = "rope_factors_short.weight";

// A key of rope.scaling, the field that it becomes, and the types of scaling that have it. Of others it changes
// nothing, unless it has to be 1 there.
struct ScalingKey {
  absl::string_view key;
  const char* field = "";
  absl::string_view types = "";
  bool must_be_one = false;
};
// What llama.cpp has beside these means another thing in transformers' YaRN, or is not there at all.
constexpr ScalingKey kScalingKeys[] = {{"type"},
                                       {"finetuned"},  // how the model came about
                                       {"factor", "factor", "linear yarn", true},
                                       {"original_context_length", "original_max_position_embeddings", "yarn longrope"},
                                       {"yarn_beta_fast", "beta_fast", "yarn"},
                                       {"yarn_beta_slow", "beta_slow", "yarn"},
                                       {"attn_factor", "attention_factor", "longrope", true}};

// A key that nobody knows here might change every number.
absl::Status CopyScaling(const GgufFields& fields, const std::string& type, ordered_json& rope) {
  const std::string prefix = fields.KeyOf(kScaling);
  for (const auto& [key, content] : fields.metadata()) {
    if (!absl::StartsWith(key, prefix)) continue;
    const ScalingKey* known = absl::c_find_if(
        kScalingKeys, [&](const ScalingKey& k) { return k.key == absl::string_view(key).substr(prefix.size()); });
    const ordered_json value = JsonOf(content);
    if (known == std::end(kScalingKeys)) return RefuseKey(key, value);
    if (IsAmong(type, known->types)) {
      if (!value.is_number()) return RefuseKey(key, value);
      rope[known->field] = value;
    } else if (known->must_be_one && value != 1 && value != 0) {
      return RefuseKey(key, value);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ordered_json> ReadFactors(const GgufFields& fields, const std::string& name) {
  DISTILL_ASSIGN_OR_RETURN(const TensorView table, fields.weights().Load(name));
  if (table.dtype != DType::kFloat32 || table.shape.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", name, "\" is no list of float32 numbers"));
  }
  std::vector<float> numbers(static_cast<size_t>(table.shape[0]));  // the file may not align them
  std::memcpy(numbers.data(), table.data, numbers.size() * sizeof(float));
  ordered_json list = ordered_json::array();
  for (const float number : numbers) list.push_back(Decimal(number));
  return list;
}

absl::Status AddScaling(GgufFields& fields) {
  DISTILL_RETURN_IF_ERROR(fields.RequireNo("rope.scale_linear", /*neutral=*/1));
  int tables = 0;
  for (const char* name : {kLongFactors, kShortFactors}) tables += fields.weights().Find(name) != nullptr ? 1 : 0;
  ordered_json type = fields.Get("rope.scaling.type");
  if (type.is_null() || type == "none") type = tables > 0 ? "longrope" : "none";  // Phi-3's files do not say it
  if (type != "none" && type != "linear" && type != "yarn" && type != "longrope") {
    return RefuseKey(fields.KeyOf("rope.scaling.type"), type);
  }
  if (tables != (type == "longrope" ? 2 : 0)) {
    return absl::InvalidArgumentError(absl::StrCat("its positions are scaled by ", type.dump(), ", and it has ", tables,
                                                   " of the tables ", kLongFactors, " and ", kShortFactors, "; ",
                                                   kCopyConfig));
  }
  ordered_json rope = {{"rope_type", type}};
  DISTILL_RETURN_IF_ERROR(CopyScaling(fields, type.get<std::string>(), rope));
  if (type == "none") return absl::OkStatus();
  if (type == "longrope") {
    DISTILL_ASSIGN_OR_RETURN(rope["long_factor"], ReadFactors(fields, kLongFactors));
    DISTILL_ASSIGN_OR_RETURN(rope["short_factor"], ReadFactors(fields, kShortFactors));
  } else if (!rope.contains("factor")) {
    return absl::InvalidArgumentError(absl::StrCat("its metadata have no \"", fields.KeyOf("rope.scaling.factor"),
                                                   "\" for a scaling of type ", type.dump(), "; ", kCopyConfig));
  }
  fields.config["rope_scaling"] = std::move(rope);
  return absl::OkStatus();
}

// How much of each head is rotated.
absl::Status AddRotated(GgufFields& fields) {
  const ordered_json rotated = fields.Get("rope.dimension_count");
  const int64_t size = fields.Count("head_dim");
  if (rotated.is_null() || rotated == size || size == 0) return absl::OkStatus();
  if (!rotated.is_number_integer() || rotated.get<int64_t>() <= 0 || rotated.get<int64_t>() > size) {
    return absl::InvalidArgumentError(absl::StrCat("its metadata have \"", fields.KeyOf("rope.dimension_count"),
                                                   "\": ", rotated.dump(), " for heads of ", size, " elements"));
  }
  double part = rotated.get<double>() / static_cast<double>(size);
  // Whoever reads it multiplies and cuts.
  while (static_cast<int64_t>(part * static_cast<double>(size)) < rotated.get<int64_t>())
    part = std::nextafter(part, 1);
  fields.config["partial_rotary_factor"] = part;
  return absl::OkStatus();
}

}  // namespace

absl::Status AddGgufRope(GgufFields& fields) {
  if (fields.weights().Find(kFactors) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("it has a table of factors for the rotary frequencies (", kFactors,
                                                   "), and not how they were made: ", kCopyConfig));
  }
  fields.config["rope_theta"] = 10000.0;
  fields.Copy("rope_theta", "rope.freq_base");
  DISTILL_RETURN_IF_ERROR(AddRotated(fields));
  return AddScaling(fields);
}

}  // namespace distill
