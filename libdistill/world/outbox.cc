#include "libdistill/world/outbox.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "libdistill/core/status_macros.h"

namespace distill {

void Outbox::Break() {
  messages_.clear();
  header_.clear();
  sent_ = 0;
  broken_ = true;
}

absl::StatusOr<size_t> Outbox::Send(const Socket& socket, size_t limit) {
  size_t taken = 0;
  while (!messages_.empty() && taken < limit) {
    const Message& message = *messages_.front();
    // Frames are counted in the order in which they leave.
    if (header_.empty()) header_ = seal_.Seal(message);
    absl::string_view header = header_, payload = message.payload;
    header.remove_prefix(std::min(sent_, header.size()));
    payload.remove_prefix(sent_ - std::min(sent_, header_.size()));
    payload = payload.substr(0, limit - taken);
    DISTILL_ASSIGN_OR_RETURN(const size_t some, SendBoth(socket, header, payload));
    if (some == 0) break;
    taken += some;
    sent_ += some;
    if (sent_ < header_.size() + message.payload.size()) continue;
    header_.clear();
    sent_ = 0;
    messages_.pop_front();
  }
  return taken;
}

}  // namespace distill
