#include "libdistill/comm/common_wish.h"

#include "absl/strings/str_cat.h"

namespace distill {

absl::StatusOr<std::string> CommonWish(const std::string& variable, const std::vector<std::string>& wishes,
                                       const std::vector<std::string>& names) {
  size_t first = wishes.size();
  for (size_t r = 0; r < wishes.size(); ++r) {
    const std::string& wish = wishes[r];
    if (wish.empty()) continue;
    if (wish != "0" && wish != "1") {
      return absl::InvalidArgumentError(
          absl::StrCat(variable, " is '", wish, "' for ", names[r], "; 0 and 1 are known"));
    }
    if (first == wishes.size()) first = r;
    if (wish == wishes[first]) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(variable, " differs: ", wishes[first], " for ", names[first], ", ", wish, " for ", names[r]));
  }
  return first == wishes.size() ? "" : wishes[first];
}

}  // namespace distill
