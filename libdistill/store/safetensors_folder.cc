#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/store/strict_json.h"

namespace distill {
namespace {

using nlohmann::json;

// Tensor name -> name of its shard's file within the folder.
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  DISTILL_RETURN_IF_ERROR(Annotate(CheckJson(text, /*max_depth=*/8), path));
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto damaged = [&](const std::string& what) { return absl::DataLossError(absl::StrCat(path, ": ", what)); };
  if (!document.is_object() || !document.contains("weight_map") || !document["weight_map"].is_object()) {
    return damaged("no object \"weight_map\"");
  }
  std::map<std::string, std::string> index;
  for (const auto& [name, file] : document["weight_map"].items()) {
    if (!file.is_string()) return damaged(absl::StrCat("the file of tensor \"", name, "\" is no string"));
    const std::string file_name = file.get<std::string>();
    // A shard lies beside its index; anything else is no path that this file may choose.
    if (file_name.empty() || std::filesystem::path(file_name).filename() != file_name || file_name == "..") {
      return damaged(absl::StrCat("\"", file_name, "\" is no plain file name"));
    }
    index[name] = file_name;
  }
  return index;
}

}  // namespace

absl::StatusOr<SafetensorsFolder> SafetensorsFolder::Open(const std::string& folder) {
  const std::string single_path = absl::StrCat(folder, "/model.safetensors");
  const std::string index_path = absl::StrCat(single_path, ".index.json");
  SafetensorsFolder result;
  std::error_code error;
  if (std::filesystem::exists(single_path, error)) {
    DISTILL_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(single_path));
    for (const auto& [name, view] : file.tensors()) result.file_of_[name] = 0;
    result.files_.push_back(std::move(file));
    return result;
  }
  if (!std::filesystem::exists(index_path, error)) {
    return absl::NotFoundError(absl::StrCat(folder, ": neither model.safetensors nor model.safetensors.index.json; ",
                                            "weights in another format must be saved as safetensors first"));
  }
  DISTILL_ASSIGN_OR_RETURN(const auto index, ReadIndex(index_path));
  std::map<std::string, size_t> number_of;
  for (const auto& [name, file_name] : index) {
    const auto [entry, is_new] = number_of.emplace(file_name, result.files_.size());
    if (is_new) {
      absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(absl::StrCat(folder, "/", file_name));
      if (!file.ok()) return Annotate(file.status(), absl::StrCat("a shard that ", index_path, " names"));
      result.files_.push_back(*std::move(file));
    }
    const SafetensorsFile& file = result.files_[entry->second];
    if (file.Find(name) == nullptr) {
      return absl::DataLossError(absl::StrCat(index_path, ": tensor \"", name, "\" is not in ", file.path()));
    }
    result.file_of_[name] = entry->second;
  }
  for (const SafetensorsFile& file : result.files_) {
    for (const auto& [name, view] : file.tensors()) {
      const auto found = result.file_of_.find(name);
      if (found != result.file_of_.end() && &result.files_[found->second] == &file) continue;
      return absl::DataLossError(absl::StrCat(file.path(), ": tensor \"", name, "\" is not there by ", index_path));
    }
  }
  return result;
}

const TensorView* SafetensorsFolder::Find(const std::string& name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : files_[found->second].Find(name);
}

void SafetensorsFolder::Forget(const std::string& name) const {
  const auto found = file_of_.find(name);
  if (found != file_of_.end()) files_[found->second].Forget(name);
}

std::vector<std::string> SafetensorsFolder::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

const std::string& SafetensorsFolder::FileOf(const std::string& name) const { return files_[file_of_.at(name)].path(); }

}  // namespace distill
