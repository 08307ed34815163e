// How fast a decoder's rotary positions rotate, as config.json says it; the frequencies are in rotary_frequencies.h.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

// As transformers' modeling_rope_utils.py names and computes them.
enum class RopeType { kDefault, kLinear, kDynamic, kYarn, kLongRope, kLlama3 };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double rotated = 1.0;  // "partial_rotary_factor": the share of a head that is rotated, its first part
  double factor = 1.0;   // by which frequencies are divided, or the base is stretched
  // Cosines and sines are multiplied by it (YaRN and LongRoPE, which make attention sharper for long texts).
  double attention_factor = 1.0;
  double original_length = 0;  // "original_max_position_embeddings": of the texts of the first training
  double longest = 0;          // "max_position_embeddings"
  double low_freq_factor = 1.0, high_freq_factor = 4.0;       // of Llama 3.1
  double beta_fast = 32.0, beta_slow = 1.0;                   // of YaRN
  bool truncates = true;                                      // of YaRN: its range in whole pairs
  std::vector<double> short_factors = {}, long_factors = {};  // of LongRoPE, one for each pair that is rotated

  // How many of a head's `size` elements are rotated: even.
  int64_t RotatedOf(int64_t size) const { return static_cast<int64_t>(static_cast<double>(size) * rotated); }
  // Whether frequencies depend on how long a document is.
  bool depends_on_length() const { return type == RopeType::kDynamic || type == RopeType::kLongRope; }
  // Documents of lengths with the same key have the same frequencies, and those of 0 are the ones of short documents.
  int64_t KeyOf(int64_t length) const;
};

// What a family has where config.json says nothing.
struct RopeDefaults {
  double theta = 10000.0;
  double longest = 2048;              // "max_position_embeddings"
  double original_length = 0;         // where no field says it; 0: the longest
  absl::string_view layer_type = "";  // of rope_parameters that have an object for each kind of layer: the kind
  bool reads_older_form = true;       // rope_theta and rope_scaling at the top of config.json
  bool may_rotate_part = false;       // "partial_rotary_factor" below 1
  bool yarn_is_longrope = false;      // Phi-3's older files call LongRoPE "yarn" or "su"
};

// Out of config.json, in the older form (rope_theta, rope_scaling) or in that of transformers 5 (rope_parameters).
// InvalidArgument: the field is named.
[[nodiscard]] absl::StatusOr<RopeConfig> ReadRope(const nlohmann::json& document, const RopeDefaults& defaults,
                                                  int64_t head_size);

}  // namespace distill
