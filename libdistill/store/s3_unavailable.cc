// In place of s3_store.cc in a build that reads local models alone.
#include "libdistill/store/s3_store.h"

namespace distill {

absl::StatusOr<std::string> FindS3() { return std::string(); }

absl::StatusOr<std::shared_ptr<Store>> MakeS3Store(const StoreOptions&, StoreCounters&) {
  return absl::UnimplementedError("this build of libdistill reads no s3:// paths (DISTILL_MINIMAL)");
}

}  // namespace distill
