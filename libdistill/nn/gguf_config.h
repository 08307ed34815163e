// What a GGUF file tells of its model in place of the files that transformers' folders have; inside nn/ only, but for
// CheckGgufTokenizer.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace distill {

struct ConfigText {
  std::string text;
  std::string name;  // for messages: the file that it comes from, and no file that is not there
};

// FOLDER/config.json; where there is none, one made out of the metadata of the folder's GGUF files, with the name of
// the first of them. NotFound: there is neither. InvalidArgument, DataLoss: the file says not enough, or it is damaged.
[[nodiscard]] absl::StatusOr<ConfigText> ReadConfigJson(const std::string& folder);
// The path of config.json, or of the GGUF file in its place.
std::string ConfigPath(const std::string& folder);

// FailedPrecondition: a folder of GGUF files has no tokenizer beside them, which is not read out of the file. Says
// where to take it from.
[[nodiscard]] absl::Status CheckGgufTokenizer(const std::string& folder);

}  // namespace distill
