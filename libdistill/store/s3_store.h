// Objects of S3, or of another server that speaks its interface, behind the interface of all stores: s3://BUCKET/KEY.
// Folders are what keys begin with up to a slash.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/store/store.h"

namespace distill {

// Where S3 is and who asks, as the environment says now: another text where a new store is needed.
[[nodiscard]] absl::StatusOr<std::string> FindS3();

// Finds endpoint and region; no request is made before the first file. `counters` outlives it. Unimplemented:
// libdistill was built without libcurl.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Store>> MakeS3Store(const StoreOptions& options, StoreCounters& counters);

}  // namespace distill
