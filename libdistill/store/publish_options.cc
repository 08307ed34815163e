#include "libdistill/store/publish_options.h"

#include "absl/strings/str_cat.h"
#include "libdistill/store/hub_name.h"

namespace distill {

bool PublishesToHub(const PublishOptions& options) {
  if (options.save_location == SaveLocation::kAuto) return !options.hub_location.empty();
  return options.save_location != SaveLocation::kFsx;
}

bool KeepsInFolder(const PublishOptions& options) { return options.save_location != SaveLocation::kHub; }

absl::Status CheckPublishOptions(const PublishOptions& options) {
  if (options.hub_location.empty()) {
    if (!PublishesToHub(options)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "save_location (or push_to_hub) asks for the hub, but hub_location is not set: give it as ORG/NAME");
  }
  if (!IsHubName(options.hub_location)) {
    return absl::InvalidArgumentError(
        absl::StrCat("hub_location is '", options.hub_location,
                     "'; give ORG/NAME, each of letters, digits and single - _ . (a user's own name is an ORG, too)"));
  }
  if (options.hub_revision.empty())
    return absl::InvalidArgumentError("hub_revision is empty; give a branch, such as main");
  return absl::OkStatus();
}

}  // namespace distill
