#include "libdistill/comm/fabric_pool.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// DISTILL_FABRIC_SHARED.
absl::StatusOr<std::string> Preference() {
  const char* value = std::getenv("DISTILL_FABRIC_SHARED");
  const std::string preference = value == nullptr ? "" : value;
  if (preference == "" || preference == "0" || preference == "1") return preference;
  return absl::InvalidArgumentError(absl::StrCat("DISTILL_FABRIC_SHARED is '", preference, "'; 0 and 1 are known"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FabricEndpoint>> FabricPool::Open(bool device_memory, int max_rails) {
  DISTILL_ASSIGN_OR_RETURN(const std::string preference, Preference());
  std::shared_ptr<SharedRails> rails;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    rails = rails_[device_memory ? 1 : 0].lock();
  }
  if (rails == nullptr || preference == "0") return nullptr;
  return FabricEndpoint::CreateOver(std::move(rails), max_rails);
}

absl::Status FabricPool::Share(const FabricEndpoint& endpoint, bool device_memory) {
  DISTILL_ASSIGN_OR_RETURN(const std::string preference, Preference());
  const bool is_dear = endpoint.provider() == "efa";
  if (preference == "0" || (preference == "" && !is_dear)) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  rails_[device_memory ? 1 : 0] = endpoint.shared_rails();
  return absl::OkStatus();
}

}  // namespace distill
