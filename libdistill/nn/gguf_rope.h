// What a GGUF file says of positions; inside nn/ only.
#pragma once

#include "absl/status/status.h"
#include "libdistill/nn/gguf_fields.h"

namespace distill {

// Base, rotated part and scaling, where head_dim is there already. Blocks while a table of factors is read.
// InvalidArgument: a type or a key of the scaling that is not read, by its name, or factors alone.
[[nodiscard]] absl::Status AddGgufRope(GgufFields& fields);

}  // namespace distill
