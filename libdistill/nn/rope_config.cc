#include "libdistill/nn/rope_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_reader.h"

namespace distill {
namespace {

using nlohmann::json;

// A type and the fields that an object of it may have beside those of every type.
struct RopeKind {
  absl::string_view name;
  RopeType type;
  absl::string_view fields;
};
constexpr RopeKind kKinds[] = {
    {"default", RopeType::kDefault, ""},
    {"linear", RopeType::kLinear, "factor"},
    {"dynamic", RopeType::kDynamic, "factor original_max_position_embeddings"},
    {"yarn", RopeType::kYarn,
     "factor attention_factor original_max_position_embeddings beta_fast beta_slow mscale mscale_all_dim truncate"},
    {"longrope", RopeType::kLongRope,
     "factor attention_factor original_max_position_embeddings short_factor long_factor"},
    {"llama3", RopeType::kLlama3, "factor low_freq_factor high_freq_factor original_max_position_embeddings"},
};

// The rope fields, and the name that stands for them in messages.
struct RopeObject {
  std::string name;
  json fields = json::object();
};

absl::StatusOr<RopeObject> FindRope(const json& document, const RopeDefaults& defaults) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const auto found = document.find(name);
    if (found == document.end() || found->is_null()) continue;
    if (!found->is_object()) return Refuse(name, *found, "an object is");
    const auto nested = found->find(std::string(defaults.layer_type));
    if (nested != found->end() && nested->is_object()) {
      return RopeObject{absl::StrCat(name, ".", defaults.layer_type), *nested};
    }
    const auto is_object = [](const json& value) { return value.is_object(); };
    const bool is_nested = std::any_of(found->begin(), found->end(), is_object);
    if (is_nested && defaults.layer_type.empty()) {
      return Refuse(name, *found, "one object for layers of all kinds is");
    }
    if (!found->empty() && !is_nested && defaults.reads_older_form) return RopeObject{name, *found};
  }
  return RopeObject{"rope_parameters"};
}

absl::StatusOr<const RopeKind*> KindOf(const RopeObject& rope, const RopeDefaults& defaults) {
  const ConfigReader reader(rope.fields);
  const json* field = reader.Find("rope_type") != nullptr ? reader.Find("rope_type") : reader.Find("type");
  json type = field == nullptr ? json("default") : *field;
  if (defaults.yarn_is_longrope && (type == "yarn" || type == "su")) type = "longrope";
  for (const RopeKind& kind : kKinds) {
    if (type == std::string(kind.name)) return &kind;
  }
  const auto names = absl::StrJoin(kKinds, "\", \"",
                                   [](std::string* out, const RopeKind& kind) { out->append(std::string(kind.name)); });
  return Refuse(absl::StrCat(rope.name, ".rope_type"), type, absl::StrCat("supported are \"", names, "\""));
}

absl::Status CheckFields(const RopeObject& rope, const RopeKind& kind) {
  const std::vector<std::string> known =
      absl::StrSplit(absl::StrCat("rope_type type rope_theta partial_rotary_factor ", kind.fields), ' ');
  for (const auto& [key, value] : rope.fields.items()) {
    if (value.is_null() || std::find(known.begin(), known.end(), key) != known.end()) continue;
    return Refuse(absl::StrCat(rope.name, ".", key), value,
                  absl::StrCat("rope of type \"", kind.name, "\" has no such field"));
  }
  return absl::OkStatus();
}

// Both magnitudes that attention is made sharper by, as YaRN's paper suggests.
double Sharpness(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

// "attention_factor", or what its absence stands for.
void ReadAttentionFactor(ConfigReader& reader, RopeConfig& rope) {
  if (rope.type == RopeType::kYarn) {
    double scale = 0, all = 0;
    reader.Number("mscale", scale);
    reader.Number("mscale_all_dim", all);
    rope.attention_factor =
        scale > 0 && all > 0 ? Sharpness(rope.factor, scale) / Sharpness(rope.factor, all) : Sharpness(rope.factor, 1);
  } else if (rope.factor > 1) {
    rope.attention_factor = std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_length));
  }
  reader.Number("attention_factor", rope.attention_factor);
}

void ReadFactors(ConfigReader& reader, const char* name, size_t pairs, std::vector<double>& factors) {
  const json* value = reader.Find(name);
  if (value == nullptr) return reader.Fail(absl::StrCat("no \"", name, "\""));
  const auto is_positive = [](const json& item) { return item.is_number() && item.get<double>() > 0; };
  if (!value->is_array() || value->size() != pairs || !std::all_of(value->begin(), value->end(), is_positive)) {
    return reader.Fail(absl::StrCat("\"", name, "\" must be a list of ", pairs, " positive numbers"));
  }
  factors = value->get<std::vector<double>>();
}

// What the type has of its own.
void ReadScaling(ConfigReader& inner, size_t pairs, RopeConfig& rope) {
  if (rope.type == RopeType::kYarn || rope.type == RopeType::kLongRope) {
    rope.factor = rope.longest / rope.original_length;  // where no field says it
    inner.Number("factor", rope.factor);
    ReadAttentionFactor(inner, rope);
  } else {
    inner.RequiredNumber("factor", rope.factor);
  }
  switch (rope.type) {
    case RopeType::kYarn:
      inner.Number("beta_fast", rope.beta_fast);
      inner.Number("beta_slow", rope.beta_slow);
      inner.Bool("truncate", rope.truncates);
      break;
    case RopeType::kLongRope:
      ReadFactors(inner, "short_factor", pairs, rope.short_factors);
      ReadFactors(inner, "long_factor", pairs, rope.long_factors);
      break;
    case RopeType::kLlama3:
      inner.RequiredNumber("low_freq_factor", rope.low_freq_factor);
      inner.RequiredNumber("high_freq_factor", rope.high_freq_factor);
      if (rope.high_freq_factor <= rope.low_freq_factor) {
        inner.Fail("\"high_freq_factor\" must be above \"low_freq_factor\"");
      }
      break;
    default:
      break;
  }
}

}  // namespace

int64_t RopeConfig::KeyOf(int64_t length) const {
  if (type == RopeType::kLongRope) return static_cast<double>(length) > original_length ? 1 : 0;
  if (type == RopeType::kDynamic) return static_cast<double>(length) > longest ? length : 0;
  return 0;
}

absl::StatusOr<RopeConfig> ReadRope(const json& document, const RopeDefaults& defaults, int64_t head_size) {
  DISTILL_ASSIGN_OR_RETURN(const RopeObject found, FindRope(document, defaults));
  DISTILL_ASSIGN_OR_RETURN(const RopeKind* kind, KindOf(found, defaults));
  DISTILL_RETURN_IF_ERROR(CheckFields(found, *kind));
  RopeConfig rope = {.type = kind->type, .theta = defaults.theta, .longest = defaults.longest};
  ConfigReader outer(document), inner(found.fields);
  if (defaults.reads_older_form) outer.Number("rope_theta", rope.theta);
  inner.Number("rope_theta", rope.theta);
  outer.Number("partial_rotary_factor", rope.rotated);
  inner.Number("partial_rotary_factor", rope.rotated);
  outer.Number("max_position_embeddings", rope.longest);
  // As transformers looks for it: the top level first, then the rope fields, then the model's own length.
  rope.original_length = defaults.original_length > 0 ? defaults.original_length : rope.longest;
  inner.Number("original_max_position_embeddings", rope.original_length);
  outer.Number("original_max_position_embeddings", rope.original_length);
  const int64_t rotated = rope.RotatedOf(head_size);
  if (rope.rotated != 1 && !defaults.may_rotate_part) {
    inner.Fail(absl::StrCat("\"partial_rotary_factor\": ", rope.rotated, " is not supported; only 1 is"));
  }
  if (rope.rotated > 1 || rotated < 2 || rotated % 2 != 0) {
    inner.Fail(absl::StrCat("\"partial_rotary_factor\": ", rope.rotated, " rotates ", rotated, " of a head's ",
                            head_size, " elements; pairs of them, and at most all, can be rotated"));
  }
  if (rope.type != RopeType::kDefault && inner.status().ok()) ReadScaling(inner, rotated / 2, rope);
  DISTILL_RETURN_IF_ERROR(outer.status());
  DISTILL_RETURN_IF_ERROR(Annotate(inner.status(), found.name));
  return rope;
}

}  // namespace distill
