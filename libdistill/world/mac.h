// What proves who wrote a message, and that it is whole: SHA-256 and HMAC-SHA256 (RFC 2104) by libcrypto.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace distill {

constexpr size_t kSha256Bytes = 32;

// 32 bytes.
std::string Sha256(absl::string_view bytes);
std::string HmacSha256(const std::string& key, absl::string_view bytes);

// In a time that does not tell where they differ.
bool SameBytes(absl::string_view a, absl::string_view b);

}  // namespace distill
