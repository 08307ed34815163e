#include "libdistill/text/tokenizer_fingerprint.h"

#include <nlohmann/json.hpp>

#include "libdistill/store/content_hash.h"
#include "libdistill/text/json_fields.h"

namespace distill {

std::string FingerprintOf(const TokenizerTexts& texts) {
  ContentHash hash;
  for (const std::string* text :
       {&texts.tokenizer_json, &texts.tokenizer_config, &texts.special_tokens_map, &texts.added_tokens}) {
    hash.Add(*text);
  }
  // Of config.json the model's type counts alone: the rest of it differs between a student and its teacher.
  const absl::StatusOr<Json> config = ParseObjectOrNone(texts.config);
  if (config.ok()) hash.Add(Get(*config, "model_type").dump());
  return hash.Hex();
}

}  // namespace distill
