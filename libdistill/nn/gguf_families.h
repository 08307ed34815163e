// The config.json that a GGUF file's metadata stand for (docs/formats.md, "GGUF"); inside nn/ only.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/store/gguf.h"
#include "libdistill/store/weights_folder.h"

namespace distill {

// The text of a config.json with the fields of transformers. `metadata` are those of an architecture that GgufFile
// reads, `weights` the tensors of all parts. Blocks while a table of factors is read. InvalidArgument: the metadata do
// not say enough, or what is computed otherwise here; the key is named.
[[nodiscard]] absl::StatusOr<std::string> ConfigOfGguf(const GgufMetadata& metadata, const WeightsFolder& weights);

}  // namespace distill
