#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/store/files.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeadName = "lm_head.weight";
constexpr const char* kEmbeddingName = "model.embed_tokens.weight";

absl::Status CheckTensor(const std::string& name, const TensorView& view, c10::IntArrayRef expected,
                         const std::string& file, const std::string& folder) {
  if (!torch::isFloatingType(ToTorch(view.dtype))) {  // quantized weights hold integers, which stand for other numbers
    return absl::InvalidArgumentError(absl::StrCat(file, ": tensor \"", name, "\" holds ", NameOf(view.dtype),
                                                   "; weights must be floating-point numbers"));
  }
  if (c10::IntArrayRef(view.shape) == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(file, ": tensor \"", name, "\" has the shape ",
                                                 ShapeToString(view.shape), ", but ", folder, "/config.json asks for ",
                                                 ShapeToString(expected)));
}

// A tied head may be stored once more; a different one would be lost without a word.
absl::Status CheckTiedHead(const SafetensorsFolder& weights) {
  const TensorView *head = weights.Find(kHeadName), *embedding = weights.Find(kEmbeddingName);
  const bool same = embedding != nullptr && head->shape == embedding->shape && head->dtype == embedding->dtype &&
                    std::memcmp(head->data, embedding->data, head->size_bytes) == 0;
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(weights.FileOf(kHeadName), ": tensor \"", kHeadName, "\" is not \"",
                                                 kEmbeddingName, "\", although config.json says tie_word_embeddings; ",
                                                 "set it to false to use the head of the file"));
}

// Names and shapes of the file against those of the model, before any memory is taken for weights.
absl::Status CheckTensors(const Decoder& shapes, const SafetensorsFolder& weights, const std::string& folder) {
  const auto parameters = shapes.named_parameters();
  for (const auto& parameter : parameters) {
    const TensorView* view = weights.Find(parameter.key());
    if (view == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(folder, ": tensor \"", parameter.key(), "\" of shape ",
                                                     ShapeToString(parameter.value().sizes()),
                                                     " is missing from the safetensors files"));
    }
    DISTILL_RETURN_IF_ERROR(
        CheckTensor(parameter.key(), *view, parameter.value().sizes(), weights.FileOf(parameter.key()), folder));
  }
  for (const std::string& name : weights.Names()) {
    if (parameters.contains(name)) continue;
    if (absl::EndsWith(name, ".rotary_emb.inv_freq")) continue;  // older savers kept it; config.json gives it too
    if (name == kHeadName && shapes.config().tie_word_embeddings) {
      DISTILL_RETURN_IF_ERROR(CheckTiedHead(weights));
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(weights.FileOf(name), ": tensor \"", name, "\" of shape ",
                                                   ShapeToString(weights.Find(name)->shape), " is none of a ",
                                                   shapes.config().model_type, " model of ", folder, "/config.json"));
  }
  return absl::OkStatus();
}

absl::Status WriteSynced(const std::string& path, const std::string& bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot create"));
  int error = 0;
  for (size_t done = 0; error == 0 && done < bytes.size();) {
    const ssize_t written = write(fd, bytes.data() + done, bytes.size() - done);
    if (written >= 0) done += written;
    if (written < 0 && errno != EINTR) error = errno;
  }
  if (error == 0 && fsync(fd) != 0) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot write"));
}

absl::Status CopyTokenizerFiles(const std::string& from, const std::string& to) {
  static constexpr const char* kFiles[] = {
      "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
      "merges.txt",     "chat_template.jinja",   "generation_config.json"};
  std::error_code error;
  for (const char* name : kFiles) {
    const std::string source = absl::StrCat(from, "/", name), target = absl::StrCat(to, "/", name);
    if (!fs::exists(source, error) || fs::equivalent(source, target, error)) continue;
    DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(source));
    DISTILL_RETURN_IF_ERROR(WriteSynced(target, bytes));
  }
  return absl::OkStatus();
}

// New names in a folder last only once the folder itself is synced.
absl::Status SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat(folder, ": cannot open"));
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, absl::StrCat(folder, ": cannot sync"));
}

absl::Status WriteWeights(const Decoder& model, const std::string& path, torch::Dtype dtype) {
  std::map<std::string, torch::Tensor> tensors;  // keeps converted copies alive while they are written
  std::map<std::string, TensorView> views;
  for (const auto& parameter : model.named_parameters()) {
    tensors[parameter.key()] = ToHost(parameter.value(), dtype);
    views[parameter.key()] = ViewOf(tensors[parameter.key()]);
  }
  return WriteSafetensors(path, views, {{"format", "pt"}});  // transformers asks for this entry
}

}  // namespace

absl::StatusOr<std::shared_ptr<Decoder>> LoadDecoder(const std::string& folder, const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ReadDecoderConfig(folder));
  DISTILL_ASSIGN_OR_RETURN(const SafetensorsFolder weights, SafetensorsFolder::Open(folder));
  std::shared_ptr<Decoder> model;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    const Decoder shapes(config, torch::TensorOptions(torch::kMeta));
    DISTILL_RETURN_IF_ERROR(CheckTensors(shapes, weights, folder));
    model.reset(new Decoder(config, torch::TensorOptions(options.dtype).device(options.device)));
    model->source_folder_ = folder;
    for (const auto& parameter : model->named_parameters()) {
      CopyFromView(*weights.Find(parameter.key()), parameter.value());
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return Annotate(status, absl::StrCat("loading the model of ", folder));
  return model;
}

absl::StatusOr<std::shared_ptr<Decoder>> CreateDecoder(const std::string& folder, uint64_t seed,
                                                       const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ReadDecoderConfig(folder));
  std::shared_ptr<Decoder> model;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    model = std::make_shared<Decoder>(config, seed);
    model->source_folder_ = folder;
    model->to(options.device, options.dtype);
    return absl::OkStatus();
  });
  if (!status.ok()) return Annotate(status, absl::StrCat("making a model of the shape of ", folder));
  return model;
}

bool HasWeights(const std::string& folder) {
  std::error_code error;
  return fs::exists(absl::StrCat(folder, "/model.safetensors"), error) ||
         fs::exists(absl::StrCat(folder, "/model.safetensors.index.json"), error);
}

absl::Status Decoder::Save(const std::string& folder, const std::string& tokenizer_folder, torch::Dtype dtype) const {
  if (config_.json.empty()) return LanguageModel::Save(folder, tokenizer_folder, dtype);
  return SaveDecoder(*this, folder, tokenizer_folder, dtype);
}

absl::Status SaveDecoder(const Decoder& model, const std::string& folder, const std::string& tokenizer_folder,
                         torch::Dtype dtype) {
  DISTILL_ASSIGN_OR_RETURN(const DType file_dtype, FromTorch(dtype));
  DISTILL_ASSIGN_OR_RETURN(const std::string config, ConfigJsonWithDType(model.config(), NameOf(file_dtype)));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat(folder, ": cannot create the folder"));
  DISTILL_RETURN_IF_ERROR(
      CatchTorch([&] { return WriteWeights(model, absl::StrCat(folder, "/model.safetensors"), dtype); }));
  DISTILL_RETURN_IF_ERROR(WriteSynced(absl::StrCat(folder, "/config.json"), config));
  if (!tokenizer_folder.empty()) DISTILL_RETURN_IF_ERROR(CopyTokenizerFiles(tokenizer_folder, folder));
  return SyncFolder(folder);
}

}  // namespace distill
