#include "libdistill/checkpoint/layout.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"

namespace distill {

std::optional<NamedStep> StepOfName(absl::string_view name) {
  NamedStep of;
  absl::string_view number = name;
  of.is_aside = absl::ConsumePrefix(&number, ".") && absl::ConsumeSuffix(&number, kSetAsideSuffix);
  if (!of.is_aside) number = name;
  if (!absl::ConsumePrefix(&number, kCheckpointPrefix)) return std::nullopt;
  if (of.is_aside) number = number.substr(0, number.find('.'));
  if (!absl::SimpleAtoi(number, &of.step)) return std::nullopt;
  return of;
}

absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(const std::string& output_dir) {
  std::vector<FoundCheckpoint> found;
  if (!FolderExists(output_dir)) return found;
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(output_dir));
  for (const std::string& name : names) {
    const std::optional<NamedStep> of = StepOfName(name);
    if (of.has_value()) found.push_back({*of, JoinPath(output_dir, name)});
  }
  std::sort(found.begin(), found.end(), [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return a.of.step != b.of.step ? a.of.step > b.of.step : !a.of.is_aside && b.of.is_aside;
  });
  return found;
}

std::string CheckpointFolder(const std::string& output_dir, int64_t step) {
  return JoinPath(output_dir, absl::StrCat(kCheckpointPrefix, step));
}

std::string FreeHiddenFolder(const std::string& output_dir, int64_t step, const char* suffix) {
  const std::string name = absl::StrCat(".", kCheckpointPrefix, step);
  std::string folder = JoinPath(output_dir, name + suffix);
  std::error_code ignored;
  for (int number = 1; std::filesystem::exists(std::filesystem::symlink_status(folder, ignored)); ++number) {
    folder = JoinPath(output_dir, absl::StrCat(name, ".", number, suffix));
  }
  return folder;
}

}  // namespace distill
