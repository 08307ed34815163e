// How tokens become a text again: the "decoder" of tokenizer.json. Internal to text/.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

class TokenDecoder {
 public:
  // Of the member "decoder", which may be null: then tokens are joined by spaces. InvalidArgument: a kind that is not
  // supported, or options that make no sense.
  [[nodiscard]] static absl::StatusOr<TokenDecoder> Parse(const nlohmann::json& json);

  // Any thread may call it.
  std::string Join(std::vector<std::string> tokens) const;

  using Step = std::function<void(std::vector<std::string>* tokens)>;

 private:
  std::vector<Step> steps_;
};

}  // namespace distill
