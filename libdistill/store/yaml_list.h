// A list of texts in a YAML file, each with its place, for errors about what it says.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

struct YamlItem {
  std::string text;
  std::string place;  // "FILE:LINE"
};

// What the file, of any store, has under `key` at its top: "key:\n- first\n- second". Other keys are passed over.
// Blocks while the file is read. InvalidArgument, with file and line: no YAML, no such key, no list, an empty one, or
// an item that is no text or is empty. Other errors are those of reading.
[[nodiscard]] absl::StatusOr<std::vector<YamlItem>> ReadYamlList(const std::string& path, const std::string& key);

}  // namespace distill
