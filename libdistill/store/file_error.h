// What the system says of a file that cannot be used, and how much space is left for one.
//
//   if (write(fd, bytes.data(), bytes.size()) < 0) return FileError("write", path, errno, bytes.size());
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

// "cannot ACTION PATH: No space left on device (wanted 4096 bytes, 0 are free)"; the bytes where `wanted_bytes` is not
// negative. ResourceExhausted: the disk or the quota is full, or the file is too large; NotFound, PermissionDenied, or
// else Internal.
[[nodiscard]] absl::Status FileError(const char* action, const std::string& path, int error, int64_t wanted_bytes = -1);

// What this user may still write in `folder`, or, where it does not exist, in its nearest parent that does. A quota may
// allow less.
[[nodiscard]] absl::StatusOr<int64_t> FreeBytes(const std::string& folder);

}  // namespace distill
