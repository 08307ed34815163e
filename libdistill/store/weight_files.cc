#include "libdistill/store/weight_files.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr char kAdapterConfig[] = "adapter_config.json", kConfig[] = "config.json";

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isdigit(c); });
}

bool IsOfAdapters(absl::string_view name) { return name == kAdapterConfig || absl::StartsWith(name, "adapter_model."); }

bool HoldsWeights(absl::string_view name) {
  return IsReadAsWeights(name) || IsOfAdapters(name) || name == kStateProjectionsFile;
}

absl::StatusOr<std::vector<std::string>> Remove(const std::string& folder, const std::vector<std::string>& written) {
  const absl::StatusOr<std::vector<std::string>> found = ListFiles(folder, "", "");
  if (absl::IsNotFound(found.status())) return std::vector<std::string>();  // in S3 a folder comes with its first file
  DISTILL_RETURN_IF_ERROR(found.status());
  const std::vector<std::string> old = WeightsOfOthers(*found, written);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  for (const std::string& name : old) DISTILL_RETURN_IF_ERROR(store->Remove(JoinPath(folder, name)));
  return old;
}

}  // namespace

std::string AdviceOnStandingSave(const std::string& folder) {
  const std::string save = JoinPath(folder, kStandingSave);
  if (!FolderExists(save)) return "";
  return absl::StrCat("; ", save, " is a save of a model that was interrupted, or is not complete yet: the run that ",
                      "wrote it completes it, and so does the next one with this output_dir");
}

bool IsReadAsWeights(absl::string_view name) {
  for (const auto& [stem, ending] : {std::pair("model", ".safetensors"), std::pair("pytorch_model", ".bin")}) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, stem)) continue;
    if (rest == ending || rest == absl::StrCat(ending, ".index.json")) return true;
    // -00001-of-00003
    if (!absl::ConsumePrefix(&rest, "-") || !absl::ConsumeSuffix(&rest, ending)) continue;
    const std::vector<absl::string_view> numbers = absl::StrSplit(rest, "-of-");
    if (numbers.size() == 2 && IsNumber(numbers[0]) && IsNumber(numbers[1])) return true;
  }
  return false;
}

std::vector<std::string> WeightsOfOthers(const std::vector<std::string>& found,
                                         const std::vector<std::string>& written) {
  std::vector<std::string> old;
  if (std::none_of(written.begin(), written.end(), HoldsWeights)) return old;
  const bool has_adapters = absl::c_linear_search(written, kAdapterConfig);
  std::copy_if(found.begin(), found.end(), std::back_inserter(old), [&](const std::string& name) {
    return (HoldsWeights(name) || (has_adapters && name == kConfig)) && !absl::c_linear_search(written, name);
  });
  return old;
}

absl::Status RemoveWeightsOfOthers(const std::string& folder, const std::vector<std::string>& written) {
  const absl::StatusOr<std::vector<std::string>> removed = Remove(folder, written);
  if (!removed.ok()) {
    return absl::Status(removed.status().code(),
                        absl::StrCat("weights of another model are left in ", folder,
                                     ", which a reader may take for the new one's: ", removed.status().message(),
                                     "; remove what is older than the new files"));
  }
  if (!removed->empty()) {
    LogInfo(absl::StrCat("removed from ", folder, ", as weights of another model: ", absl::StrJoin(*removed, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace distill
