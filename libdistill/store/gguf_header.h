// What a GGUF file says of itself before its tensors (docs/formats.md, "GGUF"); inside store/ only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/file_bytes.h"
#include "libdistill/store/gguf.h"

namespace distill {

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // rows first, as everywhere here; the file has it the other way round
  uint32_t type = 0;           // ggml's number
  int64_t offset = 0;          // of its data in the file
};

struct GgufHeader {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;
};

// DataLoss: no GGUF file, of a version or byte order that is not read, truncated, or damaged: nothing beyond the file's
// size is ever allocated.
[[nodiscard]] absl::StatusOr<GgufHeader> ReadGgufHeader(const FileBytes& file);

}  // namespace distill
