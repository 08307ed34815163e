// What a text is brought into before it is cut: the "normalizer" of tokenizer.json.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/text/normalized_text.h"

namespace distill {

class Normalizer {
 public:
  // Of the member "normalizer", which may be null. InvalidArgument: a kind that is not supported, or options that make
  // no sense.
  [[nodiscard]] static absl::StatusOr<Normalizer> Parse(const nlohmann::json& json);

  // Any thread may call it. InvalidArgument: a pattern that cannot be matched against this text within bounds.
  [[nodiscard]] absl::Status Apply(NormalizedText* text) const;

  bool empty() const { return steps_.empty(); }

  using Step = std::function<absl::Status(NormalizedText*)>;

 private:
  std::vector<Step> steps_;
};

}  // namespace distill
