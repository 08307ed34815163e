#include "libdistill/checkpoint/manifest.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/content_hash.h"

namespace distill {
namespace {

constexpr size_t kChecksumFieldBytes = 2 + 32;  // the field's number and type, its length, and what ContentHash gives

std::string HashOf(absl::string_view bytes) { return ContentHash().Add(bytes.data(), bytes.size()).Hex(); }

bool HasItsChecksum(const std::string& bytes, const CheckpointManifest& manifest) {
  return bytes.size() > kChecksumFieldBytes &&
         HashOf(absl::string_view(bytes).substr(0, bytes.size() - kChecksumFieldBytes)) == manifest.checksum;
}

}  // namespace

std::string SealManifest(CheckpointManifest manifest) {
  manifest.format_version = kCheckpointFormatVersion;
  manifest.checksum.clear();
  manifest.checksum = HashOf(Serialize(manifest));
  return Serialize(manifest);
}

absl::StatusOr<CheckpointManifest> OpenManifest(const std::string& bytes, const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(const CheckpointManifest manifest, ParseCheckpointManifest(bytes, path));
  // Version 1 had no checksum; a version that became 1 by a changed bit still has one.
  const bool has_checksum = manifest.format_version != 1 || !manifest.checksum.empty();
  if (has_checksum && !HasItsChecksum(bytes, manifest)) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: its own checksum differs"));
  }
  if (manifest.format_version > kCheckpointFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": format version ", manifest.format_version,
                                                      "; this program reads versions 1 to ", kCheckpointFormatVersion));
  }
  if (Serialize(manifest) != bytes) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: it has bytes that no version writes"));
  }
  return manifest;
}

}  // namespace distill
