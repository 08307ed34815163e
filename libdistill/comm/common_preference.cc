#include "libdistill/comm/common_preference.h"

#include "absl/strings/str_cat.h"

namespace distill {

absl::StatusOr<std::string> CommonPreference(const std::string& variable, const std::vector<std::string>& preferences,
                                             const std::vector<std::string>& names) {
  size_t first = preferences.size();
  for (size_t r = 0; r < preferences.size(); ++r) {
    const std::string& preference = preferences[r];
    if (preference.empty()) continue;
    if (preference != "0" && preference != "1") {
      return absl::InvalidArgumentError(
          absl::StrCat(variable, " is '", preference, "' for ", names[r], "; 0 and 1 are known"));
    }
    if (first == preferences.size()) first = r;
    if (preference == preferences[first]) continue;
    return absl::FailedPreconditionError(absl::StrCat(variable, " differs: ", preferences[first], " for ", names[first],
                                                      ", ", preference, " for ", names[r]));
  }
  return first == preferences.size() ? "" : preferences[first];
}

}  // namespace distill
