#include "examples/brain2text/model_options.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/config/config_file.h"
#include "libdistill/core/description.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {

absl::StatusOr<std::vector<std::string>> SessionsOf(const BrainModelOptions& options) {
  std::vector<std::string> sessions;
  std::set<std::string> seen;
  for (const absl::string_view part : absl::StrSplit(options.sessions, ',', absl::SkipWhitespace())) {
    sessions.emplace_back(absl::StripAsciiWhitespace(part));
    if (!seen.insert(sessions.back()).second) {
      return absl::InvalidArgumentError(absl::StrCat("sessions: ", sessions.back(), " is there twice"));
    }
  }
  if (sessions.empty()) return absl::InvalidArgumentError("sessions is missing: name the folders of the days");
  return sessions;
}

int64_t FramesOf(const BrainModelOptions& options, int64_t bins) {
  if (options.patch_size == 0) return bins;
  return bins < options.patch_size ? 0 : (bins - options.patch_size) / options.patch_stride + 1;
}

int64_t BinsFor(const BrainModelOptions& options, int64_t frames) {
  return options.patch_size == 0 ? frames : (frames - 1) * options.patch_stride + options.patch_size;
}

absl::StatusOr<BrainModelOptions> ReadModelOptions(const std::string& folder) {
  const std::string path = JoinPath(folder, kModelOptionsFile);
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  DISTILL_ASSIGN_OR_RETURN(const FieldValues values, ValuesFromYaml(text));
  BrainModelOptions options;
  const Description description = DescriptionOf(options);
  for (const auto& [name, value] : values) {
    const FieldDescription* field = description.Find(name);
    if (field == nullptr || !field->places.front().parse(value)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": '", name, ": ", value, "' is no option of a model"));
    }
  }
  DISTILL_RETURN_IF_ERROR(Annotate(description.Check(), path));
  return options;
}

std::string ModelOptionsToYaml(const BrainModelOptions& options) { return ValuesToYaml(ValuesOf(options)); }

}  // namespace distill
