#include "libdistill/checkpoint/layout.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/checkpoint_place.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {

const std::vector<std::string>& ModelEntries() {
  static const auto* const entries = new std::vector<std::string>{
      "pytorch_model.bin.index.json", "model.safetensors.index.json", "adapter_config.json", "config.json"};
  return *entries;
}

std::vector<std::string> NamesToHide(const std::vector<std::string>& names) {
  std::vector<std::string> entries;
  for (const std::string& entry : ModelEntries()) {
    if (std::find(names.begin(), names.end(), entry) != names.end()) entries.push_back(entry);
  }
  return entries.empty() ? names : entries;
}

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
  DISTILL_ASSIGN_OR_RETURN(std::vector<FoundCheckpoint> found, PlaceOf(output_dir)->List());
  std::sort(found.begin(), found.end(), [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    return a.of.step != b.of.step ? a.of.step > b.of.step : !a.of.is_aside && b.of.is_aside;
  });
  return found;
}

std::string PathOfFile(const std::string& folder, const CheckpointManifest& manifest, const std::string& name) {
  return JoinPath(manifest.folder.empty() ? folder : JoinPath(folder, manifest.folder), name);
}

std::string CheckpointFolder(const std::string& output_dir, int64_t step) {
  return JoinPath(output_dir, absl::StrCat(kCheckpointPrefix, step));
}

}  // namespace distill
