#include "libdistill/store/aws_profile.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libdistill/core/home.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/environment_text.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// The section's fields go into `profile`. Lines that are indented belong to the field above them (`s3 =`), and are not
// needed here.
absl::Status ReadSection(const std::string& path, absl::string_view section, AwsProfile& profile) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(text.status());
  bool is_in_section = false;
  int number = 0;
  for (const absl::string_view raw : absl::StrSplit(*text, '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      const size_t end = line.find(']');
      if (end == absl::string_view::npos) {
        return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": a section's name has no closing bracket"));
      }
      is_in_section = absl::StripAsciiWhitespace(line.substr(1, end - 1)) == section;
      continue;
    }
    if (!is_in_section || absl::ascii_isspace(static_cast<unsigned char>(raw.front()))) continue;
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (!absl::StrContains(line, '=')) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": neither a section nor a field, NAME = VALUE"));
    }
    profile[absl::AsciiStrToLower(absl::StripAsciiWhitespace(field.first))] =
        std::string(absl::StripAsciiWhitespace(field.second));
  }
  return absl::OkStatus();
}

std::string PathOf(const char* variable, const char* otherwise) {
  const std::string path = EnvironmentText(variable);
  return ExpandHome(path.empty() ? otherwise : path);
}

}  // namespace

std::string AwsProfileName() {
  const std::string name = EnvironmentText("AWS_PROFILE");
  return name.empty() ? "default" : name;
}

absl::StatusOr<AwsProfile> ReadAwsProfile(const std::string& name) {
  AwsProfile profile;
  const std::string section = name == "default" ? name : absl::StrCat("profile ", name);
  DISTILL_RETURN_IF_ERROR(ReadSection(PathOf("AWS_CONFIG_FILE", "~/.aws/config"), section, profile));
  DISTILL_RETURN_IF_ERROR(ReadSection(PathOf("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"), name, profile));
  return profile;
}

}  // namespace distill
