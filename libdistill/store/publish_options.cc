#include "libdistill/store/publish_options.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace distill {
namespace {

// Of an owner or a repository, as huggingface_hub has it.
bool IsNamePart(absl::string_view part) {
  constexpr size_t kLongest = 96;
  if (part.empty() || part.size() > kLongest || absl::StrContains(part, "--") || absl::StrContains(part, ".."))
    return false;
  if (part.front() == '-' || part.front() == '.' || part.back() == '-' || part.back() == '.') return false;
  return std::all_of(part.begin(), part.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-_.", absl::string_view(&c, 1));
  });
}

}  // namespace

bool PublishesToHub(const PublishOptions& options) {
  if (options.save_location == SaveLocation::kAuto) return !options.hub_location.empty();
  return options.save_location != SaveLocation::kFsx;
}

bool KeepsInFolder(const PublishOptions& options) { return options.save_location != SaveLocation::kHub; }

bool IsHubName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  return parts.size() == 2 && IsNamePart(parts[0]) && IsNamePart(parts[1]) && !absl::EndsWith(name, ".git");
}

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
