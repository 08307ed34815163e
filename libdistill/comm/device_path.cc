#include "libdistill/comm/device_path.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

// Why `rank` keeps device memory from crossing over the fabric; empty: it does not.
std::string Obstacle(const DeviceAccess& rank, const DeviceAccess& first, bool may_copy) {
  if (rank.kind == DeviceAccess::Kind::kNone) return rank.why_not;
  if (rank.provider != first.provider) {
    return absl::StrCat("libfabric's provider is ", rank.provider, ", where the first rank's is ", first.provider);
  }
  return rank.kind == DeviceAccess::Kind::kCopies && !may_copy ? rank.why_not : "";
}

}  // namespace

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

std::string DeviceAccess::Encode() const {
  return PackStrings({std::to_string(static_cast<int>(kind)), provider, why_not, preference});
}

absl::StatusOr<DeviceAccess> DeviceAccess::Decode(const std::string& bytes) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> fields, UnpackStrings(bytes));
  if (fields.size() != 4 || (fields[0] != "0" && fields[0] != "1" && fields[0] != "2")) {
    return absl::FailedPreconditionError("it runs another version of libdistill");
  }
  return DeviceAccess{static_cast<Kind>(fields[0][0] - '0'), fields[1], fields[2], fields[3]};
}

absl::StatusOr<DevicePath> ChooseDevicePath(const std::vector<DeviceAccess>& ranks,
                                            const std::vector<std::string>& names) {
  std::vector<std::string> preferences;
  for (const DeviceAccess& rank : ranks) preferences.push_back(rank.preference);
  DISTILL_ASSIGN_OR_RETURN(const std::string preference, CommonPreference("DISTILL_FABRIC_HMEM", preferences, names));
  if (preference == "0") return DevicePath{false, "DISTILL_FABRIC_HMEM=0"};
  for (size_t r = 0; r < ranks.size(); ++r) {
    const std::string obstacle = Obstacle(ranks[r], ranks[0], preference == "1");
    if (obstacle.empty()) continue;
    const std::string why = absl::StrCat(names[r], ": ", obstacle);
    if (preference != "1") return DevicePath{false, why};
    return absl::InvalidArgumentError(
        absl::StrCat("DISTILL_FABRIC_HMEM=1, but the fabric cannot carry device memory: ", why));
  }
  return DevicePath{true, absl::StrCat("libfabric's provider ", ranks[0].provider)};
}

}  // namespace distill
