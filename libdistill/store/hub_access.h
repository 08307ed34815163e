// Whether the hub will take what is to be published, asked before it exists.
#pragma once

#include "absl/status/status.h"
#include "libdistill/store/hub_client.h"

namespace distill {

// Asks who the token belongs to, once: the hub answers that question seldom; and what the repository is called now, so
// that its owner is asked about. It need not be there. Blocks. InvalidArgument: HF_HUB_OFFLINE is
// set. PermissionDenied: there is no token, it is not valid, it may only read, or its user may not write to the owner
// of the repository; what could not be asked shows when it is published. Errors of HubClient::Send.
[[nodiscard]] absl::Status CheckMayPublish(HubClient& hub, const HubRepository& repository);

}  // namespace distill
