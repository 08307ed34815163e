// Numbers as the bytes that they are in memory, for messages between hosts of one byte order (docs/formats.md).
// Internal to world/.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace distill {

template <typename T>
void AppendRaw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// `bytes` has a whole T from `offset` on.
template <typename T>
T ReadRaw(absl::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

}  // namespace distill
