// The types of GGUF's tensors that are read (docs/formats.md, "GGUF"); inside store/ only.
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/store/tensor_file.h"

namespace distill {

// By ggml's number for it; null: a type that is not read.
const StoredType* GgufTypeOf(uint32_t number);
// That of float32 numbers which are read as one less; null: there is none for this type.
const StoredType* GgufTypeOneBelow(const StoredType& type);
// Its name, of those that are not read too.
std::string GgufTypeName(uint32_t number);
// "F32, F16, ..."
std::string GgufTypesRead();

}  // namespace distill
