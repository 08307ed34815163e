#include "libdistill/nn/model_folder.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <initializer_list>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/log.h"
#include "libdistill/nn/adapters.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/nn/gguf_config.h"
#include "libdistill/nn/layers.h"
#include "libdistill/nn/state_projections.h"
#include "libdistill/nn/weight_gate.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/store/weight_files.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {
namespace {

// The parameter's tensor, by its own name or another one, which `name` then is; null when there is none.
const TensorView* FindWeight(const WeightsFolder& weights, const WeightNames& names, std::string& name) {
  const TensorView* view = weights.Find(name);
  if (view != nullptr || names.others == nullptr) return view;
  for (const std::string& other : names.others(name)) {
    view = weights.Find(other);
    if (view == nullptr) continue;
    name = other;
    return view;
  }
  return nullptr;
}

// Into `to`, after which the files' memory for it is free again: a model is not to be in memory twice. `hash`, or null,
// takes its bytes. Throws c10::Error where the store fails.
void CopyWeight(const WeightsFolder& weights, const std::string& name, const torch::Tensor& to, ContentHash* hash) {
  const torch::NoGradGuard no_grad;
  int64_t first = 0;  // of the part's rows
  const absl::Status status = weights.LoadInParts(name, [&](const TensorView& part) {
    const bool is_whole = c10::IntArrayRef(part.shape) == to.sizes();
    CopyFromView(part, is_whole ? to : to.narrow(0, first, part.shape[0]));
    if (!is_whole) first += part.shape[0];
    if (hash != nullptr) hash->Add(part.data, static_cast<size_t>(part.size_bytes));
    return absl::OkStatus();
  });
  TORCH_CHECK(status.ok(), std::string(status.message()));
  weights.Forget(name);
}

bool IsOf(const std::string& path, const std::string& name) { return absl::StartsWith(name, absl::StrCat(path, ".")); }

// The modules of names.drawn of which the files have nothing.
std::vector<std::string> MissingModules(const torch::nn::Module& model, const WeightsFolder& weights,
                                        const WeightNames& names) {
  std::vector<std::string> missing = names.drawn.paths;
  for (const auto& parameter : model.named_parameters()) {
    std::string name = parameter.key();
    if (FindWeight(weights, names, name) == nullptr) continue;
    std::erase_if(missing, [&](const std::string& path) { return IsOf(path, parameter.key()); });
  }
  return missing;
}

bool IsOfAny(const std::vector<std::string>& paths, const std::string& name) {
  return absl::c_any_of(paths, [&](const std::string& path) { return IsOf(path, name); });
}

absl::Status MissingTensor(const std::string& name, const torch::Tensor& parameter, const WeightsFolder& weights,
                           const std::string& folder) {
  std::string message = absl::StrCat(folder, ": tensor \"", name, "\" of shape ", ShapeToString(parameter.sizes()),
                                     " is missing from its weights");
  const std::string blocks = absl::StrCat(name, "_blocks");
  if (weights.Find(blocks) != nullptr) {
    absl::StrAppend(&message, "; there is \"", blocks, "\", which is read where config.json has a quantization_config ",
                    "of \"quant_method\": \"mxfp4\": take the published config.json");
  }
  return absl::InvalidArgumentError(message);
}

absl::Status CheckTensor(const std::string& name, const TensorView& view, c10::IntArrayRef expected,
                         const std::string& file, const std::string& folder) {
  if (!torch::isFloatingType(ToTorch(view.dtype))) {  // quantized weights hold integers, which stand for other numbers
    return absl::InvalidArgumentError(absl::StrCat(file, ": tensor \"", name, "\" holds ", NameOf(view.dtype),
                                                   "; weights must be floating-point numbers"));
  }
  if (c10::IntArrayRef(view.shape) == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file, ": tensor \"", name, "\" has the shape ",
                                                 ShapeToString(view.shape), ", but ", ConfigPath(folder), " asks for ",
                                                 ShapeToString(expected)));
}

// A tied weight may be stored once more; a different one would be lost without a word.
absl::Status CheckTied(const WeightsFolder& weights, const std::string& name, const std::string& same_as) {
  const TensorView *copy = weights.Find(name), *weight = weights.Find(same_as);
  if (weight != nullptr && copy->shape == weight->shape && copy->dtype == weight->dtype) {
    DISTILL_ASSIGN_OR_RETURN(const TensorView ours, weights.Load(name));
    DISTILL_ASSIGN_OR_RETURN(const TensorView theirs, weights.Load(same_as));
    if (std::memcmp(ours.data, theirs.data, static_cast<size_t>(ours.size_bytes)) == 0) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(weights.FileOf(name), ": tensor \"", name, "\" is not \"", same_as,
                                                 "\", although config.json says tie_word_embeddings; ",
                                                 "set it to false to use the head of the file"));
}

absl::Status CheckUnclaimed(const WeightsFolder& weights, const WeightNames& names, const std::string& name,
                            const std::string& folder) {
  const auto tied = names.tied.find(name);
  if (tied != names.tied.end()) return CheckTied(weights, name, tied->second);
  if (names.is_passed_over(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(weights.FileOf(name), ": tensor \"", name, "\" of shape ",
                                                 ShapeToString(weights.Find(name)->shape), " is none of a ",
                                                 names.model_type, " model of ", ConfigPath(folder)));
}

bool HasKindOfWeights(const std::string& name) {
  return absl::c_any_of(std::initializer_list<const char*>{".safetensors", ".gguf", ".pt", ".pth", ".h5", ".msgpack"},
                        [&](const char* kind) { return absl::EndsWith(name, kind); });
}

absl::Status WriteSynced(const std::string& path, const std::string& bytes) {
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(path, bytes));
  return Sync(path);
}

absl::Status CopyTokenizerFiles(const std::string& from, const std::string& to) {
  for (const std::string& name : TokenizerFiles()) {
    const std::string source = JoinPath(from, name), target = JoinPath(to, name);
    if (!FileExists(source) || CanonicalPath(source) == CanonicalPath(target)) continue;
    DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(source));
    DISTILL_RETURN_IF_ERROR(WriteSynced(target, bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckWeights(const torch::nn::Module& shapes, const WeightsFolder& weights, const WeightNames& names,
                          const std::string& folder) {
  std::set<std::string> claimed;
  const std::vector<std::string> missing = MissingModules(shapes, weights, names);
  for (const auto& parameter : shapes.named_parameters()) {
    std::string name = parameter.key();
    if (IsOfAny(missing, name)) continue;
    const TensorView* view = FindWeight(weights, names, name);
    if (view == nullptr) return MissingTensor(name, parameter.value(), weights, folder);
    DISTILL_RETURN_IF_ERROR(CheckTensor(name, *view, parameter.value().sizes(), weights.FileOf(name), folder));
    claimed.insert(name);
  }
  for (const std::string& name : weights.Names()) {
    if (claimed.count(name) == 0) DISTILL_RETURN_IF_ERROR(CheckUnclaimed(weights, names, name, folder));
  }
  return absl::OkStatus();
}

std::string CopyWeights(const WeightsFolder& weights, const WeightNames& names, torch::nn::Module& model) {
  ContentHash hash;
  std::map<const c10::TensorImpl*, std::string> later;  // names of weights that wait
  for (const auto& parameter : model.named_parameters()) {
    std::string name = parameter.key();
    if (FindWeight(weights, names, name) == nullptr) continue;  // drawn afterwards
    if (!HasMemory(parameter.value())) {
      later[parameter.value().unsafeGetTensorImpl()] = name;
      NameDropped(parameter.value(), parameter.key());
      continue;
    }
    hash.Add(parameter.key()).Add(NameOf(weights.Find(name)->dtype));
    CopyWeight(weights, name, parameter.value(), &hash);
  }
  if (later.empty()) return hash.Hex();
  const auto read = [weights, later](const torch::Tensor& weight, const torch::Tensor& values) {
    CopyWeight(weights, later.at(weight.unsafeGetTensorImpl()), values, /*hash=*/nullptr);
  };
  dynamic_cast<GatedModel&>(model).SetBlockSource(read);
  return hash.Hex();
}

void DrawMissing(const WeightsFolder& weights, const WeightNames& names, torch::nn::Module& model,
                 const std::string& folder) {
  const std::vector<std::string> missing = MissingModules(model, weights, names);
  if (missing.empty()) return;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(names.drawn.seed);
  for (const auto& parameter : model.named_parameters()) {
    if (IsOfAny(missing, parameter.key())) {
      DrawWeight(parameter.value(), parameter.key(), {.range = names.drawn.range}, generator);
    }
  }
  LogInfo(absl::StrCat(folder, " has no weights of ", absl::StrJoin(missing, " and "), ": they are drawn from seed ",
                       names.drawn.seed));
}

void Convert(torch::nn::Module& model, const LoadOptions& options) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters()) {
    torch::Tensor parameter = item.value();
    if (HasMemory(parameter)) {
      parameter.set_data(parameter.detach().to(options.device, options.dtype));
    } else {
      parameter.set_data(WithoutMemory(parameter.sizes(), options.dtype, options.device, item.key(), kComesLater));
    }
  }
}

absl::Status CheckModelFolder(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  if (store->is_remote()) {
    DISTILL_ASSIGN_OR_RETURN(const PathKind kind, store->KindOf(folder));
    if (kind == PathKind::kFolder) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("no folder ", folder, ": no object's name begins with that and a slash; ",
                                            "check bucket and key"));
  }
  if (FolderExists(folder)) return absl::OkStatus();
  if (FileExists(folder)) return absl::NotFoundError(absl::StrCat(folder, " is a file; name the folder that holds it"));
  return absl::NotFoundError(absl::StrCat("no folder ", folder, " here; models are folders, also under s3://, or ",
                                          "names of the hub (org/name) where a program takes them"));
}

absl::StatusOr<bool> HasWeights(const std::string& folder) {
  DISTILL_RETURN_IF_ERROR(CheckModelFolder(folder));
  if (WeightsFolder::IsIn(folder)) return true;
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(folder, "", ""));
  for (const std::string& name : names) {
    const bool holds_weights = absl::StartsWith(name, "pytorch_model") || HasKindOfWeights(name);
    if (!holds_weights) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        folder, ": the weights in ", name, " are not read, only model.safetensors, pytorch_model.bin and ",
        "parts that model.safetensors.index.json or pytorch_model.bin.index.json names: save the model ",
        "as safetensors (save_pretrained in transformers does), or remove that file to start from random ", "weights"));
  }
  return false;
}

absl::Status SaveModel(const torch::nn::Module& model, const std::string& config_json, const std::string& folder,
                       const std::string& tokenizer_folder, torch::Dtype dtype) {
  DISTILL_ASSIGN_OR_RETURN(const DType file_dtype, FromTorch(dtype));
  DISTILL_ASSIGN_OR_RETURN(const std::string config, ConfigJsonWithDType(config_json, NameOf(file_dtype)));
  DISTILL_RETURN_IF_ERROR(MakeFolder(folder));
  const auto* adapted = dynamic_cast<const HasAdapters*>(&model);
  const bool has_adapters = adapted != nullptr && adapted->adapters().has_value();
  const bool saves_adapters = has_adapters && adapted->adapters()->form == AdapterForm::kAdapter;
  const auto saved_type = [dtype](torch::Dtype) { return dtype; };
  torch::OrderedDict<std::string, torch::Tensor> own, projections;
  for (const auto& item : TensorsWithoutAdapters(model)) {
    (IsOfStateProjections(item.key()) ? projections : own).insert(item.key(), item.value());
  }
  const auto merged = [&](const torch::Tensor& tensor) { return has_adapters ? Merged(model, tensor) : tensor; };
  DISTILL_RETURN_IF_ERROR(
      saves_adapters
          ? WriteInOrder(model, {AdapterTensors(model)}, JoinPath(folder, "adapter_model.safetensors"), saved_type)
          : WriteInOrder(model, {own}, JoinPath(folder, "model.safetensors"), saved_type, merged));
  if (!projections.is_empty()) {
    DISTILL_RETURN_IF_ERROR(WriteInOrder(model, {projections}, JoinPath(folder, kStateProjectionsFile), saved_type));
  }
  if (!tokenizer_folder.empty()) DISTILL_RETURN_IF_ERROR(CopyTokenizerFiles(tokenizer_folder, folder));
  if (const auto* loaded = dynamic_cast<const HasContent*>(&model); loaded != nullptr) {
    for (const auto& [name, text] : loaded->files()) DISTILL_RETURN_IF_ERROR(WriteSynced(JoinPath(folder, name), text));
  }
  // Last: who waits for a model waits for this.
  DISTILL_RETURN_IF_ERROR(saves_adapters ? WriteSynced(JoinPath(folder, "adapter_config.json"),
                                                       AdapterConfigJson(model, *adapted->adapters()))
                                         : WriteSynced(JoinPath(folder, "config.json"), config));
  return Sync(folder);  // new names in it last only then
}

}  // namespace distill
