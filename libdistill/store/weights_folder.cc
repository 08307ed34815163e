#include "libdistill/store/weights_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/gguf.h"
#include "libdistill/store/mxfp4.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/store/store.h"
#include "libdistill/store/strict_json.h"
#include "libdistill/store/torch_file.h"
#include "libdistill/store/weight_files.h"

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

absl::StatusOr<TensorFile> OpenSafetensors(const std::string& path) { return SafetensorsFile::Open(path); }
absl::StatusOr<TensorFile> OpenTorchFile(const std::string& path) { return TorchFile::Open(path); }

// A file of weights, and the index that takes its place where they are in several files.
struct Format {
  const char* name;
  absl::StatusOr<TensorFile> (*open)(const std::string& path);
};
constexpr Format kFormats[] = {{"model.safetensors", OpenSafetensors}, {"pytorch_model.bin", OpenTorchFile}};

constexpr char kBlocks[] = "_blocks", kScales[] = "_scales";  // of MXFP4

// The i-th of the first dimension, which becomes 1.
TensorView PartOf(const TensorView& whole, int64_t i) {
  TensorView part = whole;
  part.shape[0] = 1;
  part.size_bytes = whole.size_bytes / whole.shape[0];
  part.data = static_cast<const char*>(whole.data) + i * part.size_bytes;
  return part;
}

std::string IndexOf(const std::string& path) { return absl::StrCat(path, ".index.json"); }

// An error where the store does not answer.
absl::StatusOr<bool> IsFile(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(path));
  DISTILL_ASSIGN_OR_RETURN(const PathKind kind, store->KindOf(path));
  return kind == PathKind::kFile;
}

bool HasFormat(const std::string& folder) {
  for (const Format& format : kFormats) {
    const std::string path = JoinPath(folder, format.name);
    if (FileExists(path) || FileExists(IndexOf(path))) return true;
  }
  return false;
}

// A part's tensors are those that the index gives it: one that it forgets would be lost without a word.
absl::Status CheckNames(const TensorFile& file, const std::string& index_path,
                        const std::map<std::string, std::string>& index) {
  const std::string file_name = std::filesystem::path(file.path()).filename();
  for (const auto& [name, view] : file.tensors()) {
    const auto found = index.find(name);
    if (found != index.end() && found->second == file_name) continue;
    return absl::DataLossError(absl::StrCat(file.path(), ": tensor \"", name, "\" is not there by ", index_path));
  }
  return absl::OkStatus();
}

}  // namespace

bool WeightsFolder::IsIn(const std::string& folder) { return HasFormat(folder) || IsGguf(folder); }

bool WeightsFolder::IsGguf(const std::string& folder) {
  if (HasFormat(folder)) return false;
  const absl::StatusOr<std::vector<std::string>> gguf = GgufFilesIn(folder);
  return gguf.ok() ? !gguf->empty() : absl::IsFailedPrecondition(gguf.status());  // several are for Open to refuse
}

absl::Status WeightsFolder::AddGguf(const std::vector<std::string>& names) {
  std::optional<GgufFile> first;
  for (const std::string& name : names) {
    DISTILL_ASSIGN_OR_RETURN(GgufFile file,
                             GgufFile::Open(JoinPath(folder_, name), first ? &first->metadata() : nullptr));
    for (const auto& [tensor, view] : file.tensors()) {
      if (file_of_.emplace(tensor, files_.size()).second) continue;
      return absl::DataLossError(absl::StrCat(file.path(), ": tensor \"", tensor, "\" is in another part, too"));
    }
    has_gguf_blocks_ |= file.is_quantised();
    files_.push_back(file);
    if (!first) first = std::move(file);
  }
  return absl::OkStatus();
}

absl::Status WeightsFolder::AddParts(const std::string& index_path, OpenFunction open) {
  DISTILL_ASSIGN_OR_RETURN(const auto index, ReadIndex(index_path));
  std::map<std::string, size_t> number_of;
  for (const auto& [name, file_name] : index) {
    const auto [entry, is_new] = number_of.emplace(file_name, files_.size());
    if (is_new) {
      absl::StatusOr<TensorFile> file = open(JoinPath(folder_, file_name));
      if (!file.ok()) return Annotate(file.status(), absl::StrCat("a part that ", index_path, " names"));
      DISTILL_RETURN_IF_ERROR(CheckNames(*file, index_path, index));
      files_.push_back(*std::move(file));
    }
    const TensorFile& file = files_[entry->second];
    if (file.Find(name) == nullptr) {
      return absl::DataLossError(absl::StrCat(index_path, ": tensor \"", name, "\" is not in ", file.path()));
    }
    file_of_[name] = entry->second;
  }
  return absl::OkStatus();
}

absl::StatusOr<WeightsFolder> WeightsFolder::Open(const std::string& folder) {
  WeightsFolder result;
  result.folder_ = folder;
  for (const Format& format : kFormats) {
    const std::string path = JoinPath(folder, format.name);
    DISTILL_ASSIGN_OR_RETURN(const bool is_whole, IsFile(path));
    if (is_whole) {
      DISTILL_ASSIGN_OR_RETURN(TensorFile file, format.open(path));
      for (const auto& [name, view] : file.tensors()) result.file_of_[name] = 0;
      result.files_.push_back(std::move(file));
      return result;
    }
    DISTILL_ASSIGN_OR_RETURN(const bool has_index, IsFile(IndexOf(path)));
    if (!has_index) continue;
    DISTILL_RETURN_IF_ERROR(result.AddParts(IndexOf(path), format.open));
    return result;
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> gguf, GgufFilesIn(folder));
  if (!gguf.empty()) {
    DISTILL_RETURN_IF_ERROR(result.AddGguf(gguf));
    return result;
  }
  return absl::NotFoundError(
      absl::StrCat(folder, ": neither model.safetensors nor pytorch_model.bin, nor an index of ",
                   "parts (model.safetensors.index.json, pytorch_model.bin.index.json), nor GGUF; ",
                   "weights in another format must be saved as safetensors first", AdviceOnStandingSave(folder)));
}

absl::Status WeightsFolder::ScaleTensor(const std::string& name, std::optional<ScaledBlock> block) {
  const TensorView& weight = *Find(name);
  for (const char* suffix : {"_scale_inv", "_scale"}) {  // both are factors, whatever they are called
    const std::string scales = name + suffix;
    const TensorFile* file = FileWith(scales);
    if (file == nullptr) continue;
    DISTILL_ASSIGN_OR_RETURN(const ScaledBlock found, BlockOfScales(weight.shape, file->Find(scales)->shape, block));
    TensorView about{.dtype = DType::kFloat32, .shape = weight.shape};
    about.size_bytes = weight.size_bytes / SizeOf(weight.dtype) * SizeOf(about.dtype);
    scaled_[name] = {std::move(about), name, scales, found};
    hidden_.insert(scales);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("it is of eight bits, but there is no \"", name, "_scale\" or \"",
                                                 name, "_scale_inv\" to multiply it by"));
}

absl::Status WeightsFolder::Scale(std::optional<ScaledBlock> block) {
  for (const auto& [name, file] : file_of_) {
    const absl::string_view type = files_[file].StoredTypeOf(name)->name;
    if (type == kFloat8E4M3 || type == kFloat8E5M2) {
      DISTILL_RETURN_IF_ERROR(
          Annotate(ScaleTensor(name, block), absl::StrCat(files_[file].path(), ": tensor \"", name, "\"")));
    }
    // What an engine multiplies activations and caches by before it rounds them to eight bits, too.
    for (const char* suffix :
         {".input_scale", ".output_scale", ".activation_scale", ".q_scale", ".k_scale", ".v_scale"}) {
      if (absl::EndsWith(name, suffix)) hidden_.insert(name);
    }
  }
  return absl::OkStatus();
}

absl::Status WeightsFolder::UnpackTensor(const std::string& name, const std::string& blocks,
                                         const std::string& scales) {
  const auto missing = [&](const std::string& other) {
    return absl::InvalidArgumentError(absl::StrCat("MXFP4 has two tensors for a weight, but there is no \"", other,
                                                   "\": fetch the folder's files and their index again"));
  };
  const TensorFile *numbers = FileWith(blocks), *factors = FileWith(scales);
  if (numbers == nullptr) return missing(blocks);
  if (factors == nullptr) return missing(scales);
  if (FileWith(name) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the weight is there as \"", name, "\", too: remove one of them"));
  }
  DISTILL_ASSIGN_OR_RETURN(TensorView about, AboutMxfp4(*numbers->Find(blocks), *factors->Find(scales)));
  scaled_[name] = {std::move(about), blocks, scales, std::nullopt};
  hidden_.insert({blocks, scales});
  return absl::OkStatus();
}

absl::Status WeightsFolder::Unpack() {
  for (const auto& [stored, file] : file_of_) {
    absl::string_view name = stored;
    if (!absl::ConsumeSuffix(&name, kBlocks) && !absl::ConsumeSuffix(&name, kScales)) continue;
    if (scaled_.count(std::string(name)) > 0) continue;  // by its blocks
    DISTILL_RETURN_IF_ERROR(
        Annotate(UnpackTensor(std::string(name), absl::StrCat(name, kBlocks), absl::StrCat(name, kScales)),
                 absl::StrCat(files_[file].path(), ": tensor \"", stored, "\"")));
  }
  return absl::OkStatus();
}

absl::Status WeightsFolder::LoadScaled(const Scaled& scaled, bool in_parts, PartSink sink) const {
  const TensorFile& file = *FileWith(scaled.numbers);
  DISTILL_ASSIGN_OR_RETURN(const TensorView numbers, file.Load(scaled.numbers));
  DISTILL_ASSIGN_OR_RETURN(const TensorView scales, FileWith(scaled.scales)->Load(scaled.scales));
  const auto take = [&](const absl::StatusOr<TensorView>& made) {
    if (made.ok()) return sink(*made);
    return Annotate(made.status(), absl::StrCat(file.path(), ": tensor \"", scaled.numbers, "\""));
  };
  if (scaled.block.has_value()) return take(MultiplyByScales(numbers, scales, *scaled.block));
  if (!in_parts) return take(DequantiseMxfp4(numbers, scales));
  for (int64_t expert = 0; expert < numbers.shape[0]; ++expert) {
    DISTILL_RETURN_IF_ERROR(take(DequantiseMxfp4(PartOf(numbers, expert), PartOf(scales, expert))));
  }
  return absl::OkStatus();
}

const TensorFile* WeightsFolder::FileWith(const std::string& stored) const {
  const auto found = file_of_.find(stored);
  return found == file_of_.end() ? nullptr : &files_[found->second];
}

const std::string& WeightsFolder::StoredName(const std::string& name) const {
  const auto scaled = scaled_.find(name);
  return scaled == scaled_.end() ? name : scaled->second.numbers;
}

const TensorView* WeightsFolder::Find(const std::string& name) const {
  const auto scaled = scaled_.find(name);
  if (scaled != scaled_.end()) return &scaled->second.about;
  const TensorFile* file = FileWith(name);
  return file == nullptr || hidden_.count(name) > 0 ? nullptr : file->Find(name);
}

absl::StatusOr<TensorView> WeightsFolder::Load(const std::string& name) const {
  const auto scaled = scaled_.find(name);
  if (scaled != scaled_.end()) {
    TensorView whole;
    DISTILL_RETURN_IF_ERROR(LoadScaled(scaled->second, /*in_parts=*/false, [&](const TensorView& made) {
      whole = made;
      return absl::OkStatus();
    }));
    return whole;
  }
  const TensorFile* file = FileWith(name);
  if (file == nullptr) return absl::NotFoundError(absl::StrCat(folder_, ": no tensor \"", name, "\""));
  return file->Load(name);
}

absl::Status WeightsFolder::LoadInParts(const std::string& name, PartSink sink) const {
  const auto scaled = scaled_.find(name);
  if (scaled != scaled_.end()) return LoadScaled(scaled->second, /*in_parts=*/true, sink);
  DISTILL_ASSIGN_OR_RETURN(const TensorView whole, Load(name));
  return sink(whole);
}

void WeightsFolder::Forget(const std::string& name) const {
  const std::string& stored = StoredName(name);
  const TensorFile* file = FileWith(stored);
  if (file != nullptr) file->Forget(stored);
}

std::vector<std::string> WeightsFolder::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) {
    if (hidden_.count(name) == 0) names.push_back(name);
  }
  for (const auto& [name, scaled] : scaled_) {
    if (scaled.numbers != name) names.push_back(name);  // the files have it under other names
  }
  return names;
}

const std::string& WeightsFolder::FileOf(const std::string& name) const {
  return files_[file_of_.at(StoredName(name))].path();
}

}  // namespace distill
