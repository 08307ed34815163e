#include "libdistill/store/content_hash.h"

// Without its library, which machines that only compile for GPUs need not have.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {

struct ContentHash::State {
  XXH3_state_t hash;
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }
ContentHash::~ContentHash() = default;

ContentHash& ContentHash::Add(const void* data, size_t size) {
  XXH3_128bits_update(&state_->hash, data, size);
  return *this;
}

ContentHash& ContentHash::Add(absl::string_view text) {
  const uint64_t size = text.size();
  return Add(&size, sizeof(size)).Add(text.data(), text.size());
}

std::string ContentHash::Hex() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(&state_->hash);
  return absl::StrCat(absl::Hex(digest.high64, absl::kZeroPad16), absl::Hex(digest.low64, absl::kZeroPad16));
}

uint64_t HashOfBytes(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

absl::StatusOr<std::string> HashOfFile(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return ContentHash().Add(bytes.data(), bytes.size()).Hex();
}

}  // namespace distill
