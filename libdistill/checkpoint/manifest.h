// manifest.pb: the list of a checkpoint's files, which carries a checksum of its own (docs/formats.md, "Checkpoints").
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/proto/checkpoint_messages.h"

namespace distill {

// The bytes of the newest format version, whatever `manifest` says of version and checksum.
std::string SealManifest(CheckpointManifest manifest);

// Of bytes that are exactly what some version wrote. DataLoss: any others; FailedPrecondition: a newer version's.
// `path` stands for the file.
[[nodiscard]] absl::StatusOr<CheckpointManifest> OpenManifest(const std::string& bytes, const std::string& path);

}  // namespace distill
