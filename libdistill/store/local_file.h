// Files of a local disk, behind the interface of all stores.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/store/readable_file.h"

namespace distill {

// NotFound, PermissionDenied, or InvalidArgument where the path is a folder. What is read does not change when the file
// is replaced meanwhile; where it is cut short, reading fails (DataLoss).
[[nodiscard]] absl::StatusOr<std::shared_ptr<const ReadableFile>> OpenLocalFile(const std::string& path);

}  // namespace distill
