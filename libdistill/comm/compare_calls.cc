// What the debug mode adds to each collective: ranks that are about to make different ones all learn so, and do not
// wait for one another in vain or take one another's bytes for something else.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// What ranks tell each other: the call, which must be the same, and the context, which says where it was made.
struct View {
  char call[160];
  char context[96];
};

void Fill(char* field, size_t bytes, const std::string& text) {
  std::memset(field, 0, bytes);
  std::memcpy(field, text.data(), std::min(text.size(), bytes - 1));
}

std::string Describe(const View& view) {
  return absl::StrCat(view.call, *view.context == 0 ? "" : absl::StrCat(" (", view.context, ")"));
}

}  // namespace

absl::Status Communicator::CompareWithPeers(const CommCall& mine) {
  std::vector<View> views(static_cast<size_t>(world_size_));
  View view;
  Fill(view.call, sizeof(view.call), DescribeWhat(mine));
  Fill(view.context, sizeof(view.context), error_context_ ? error_context_() : "");
  // The exchange itself is the same call on every rank.
  const CommCall made = std::exchange(current_, {.operation = "compare", .count = sizeof(View)});
  DISTILL_RETURN_IF_ERROR(DoAllGather(&view, views.data(), sizeof(View), DType::kUInt8, {}));
  current_ = made;
  for (size_t rank = 0; rank < views.size(); ++rank) {
    if (std::strcmp(views[rank].call, views[0].call) == 0) continue;
    // The first two that differ: every rank says the same.
    return absl::FailedPreconditionError(
        absl::StrCat("ranks do not make the same calls: ", Describe(0), " calls ", distill::Describe(views[0]), ", ",
                     Describe(static_cast<int>(rank)), " calls ", distill::Describe(views[rank])));
  }
  return absl::OkStatus();
}

}  // namespace distill
