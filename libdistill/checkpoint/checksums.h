// Checksums of a checkpoint's files, part by part, so that ranks can divide the work of checking them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/proto/checkpoint_messages.h"

namespace distill {

inline constexpr uint64_t kChecksumPartBytes = 64 << 20;

// Reads the file through: its size, and the XXH3 of each `part_bytes` of it; an empty file has one part. NotFound where
// there is none.
[[nodiscard]] absl::StatusOr<FileEntry> Checksum(const std::string& folder, const std::string& name,
                                                 uint64_t part_bytes = kChecksumPartBytes);

// How many parts all files of a manifest have together.
int64_t CountParts(const CheckpointManifest& manifest);

// Reads one of them, counted over all files in their order. DataLoss: it is not as it was written; other errors are the
// system's.
[[nodiscard]] absl::Status CheckPart(const std::string& folder, const CheckpointManifest& manifest, int64_t part);

}  // namespace distill
