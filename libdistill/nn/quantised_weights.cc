#include "libdistill/nn/quantised_weights.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/nn/gguf_config.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

using nlohmann::json;

constexpr char kFp8[] = "fp8", kMxfp4[] = "mxfp4", kCompressedTensors[] = "compressed-tensors";
constexpr char kRead[] = "read are fp8, mxfp4, compressed-tensors of the format float-quantized, and GGUF";

// How somebody gets the weights back as numbers, with transformers.
constexpr struct {
  const char* method;
  const char* recipe;
} kConversions[] = {
    {"bitsandbytes",
     "load it in transformers, call model.dequantize() and model.save_pretrained(FOLDER), and name that folder"},
    {kMxfp4,
     "load it in transformers with quantization_config=Mxfp4Config(dequantize=True), save it with "
     "model.save_pretrained(FOLDER), and name that folder"},
    {kFp8,
     "load it in transformers with quantization_config=FineGrainedFP8Config(dequantize=True), save it with "
     "model.save_pretrained(FOLDER), and name that folder"},
    {kCompressedTensors,
     "load it in transformers with quantization_config=CompressedTensorsConfig(dequantize=True), save it with "
     "model.save_pretrained(FOLDER), and name that folder"},
};

// GPTQ, AWQ, HQQ, EETQ, AQLM and others round to integers that their own kernels read.
std::string Original(const json& config) {
  const auto name = config.find("_name_or_path");
  const bool is_named = name != config.end() && name->is_string() && !name->get<std::string>().empty();
  return absl::StrCat("take the model that it was made from, ",
                      is_named ? absl::StrCat("by config.json's _name_or_path ", Shown(*name))
                               : "which its README.md names as base_model");
}

std::string Conversion(const std::string& method, const json& config) {
  for (const auto& [known, recipe] : kConversions) {
    if (method == known) return recipe;
  }
  return Original(config);
}

// The object that says how weights were quantised; null where there is none.
const json* FindQuantisation(const json& config) {
  for (const char* name : {"quantization_config", "compression_config"}) {
    const auto found = config.find(name);
    if (found != config.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

absl::StatusOr<std::string> MethodOf(const json& quantisation) {
  const auto method = quantisation.is_object() ? quantisation.find("quant_method") : quantisation.end();
  if (!quantisation.is_object() || method == quantisation.end() || !method->is_string()) {
    return Refuse("quantization_config", quantisation, absl::StrCat("it has no \"quant_method\"; ", kRead));
  }
  return method->get<std::string>();
}

absl::StatusOr<std::optional<ScaledBlock>> BlockOf(const json& value, const char* name) {
  if (value.is_null()) return std::nullopt;
  const auto is_size = [](const json& size) {
    return size.is_number_integer() && size.get<int64_t>() > 0 && size.get<int64_t>() <= (1 << 20);
  };
  if (!value.is_array() || value.size() != 2 || !is_size(value[0]) || !is_size(value[1])) {
    return Refuse(absl::StrCat("quantization_config.", name), value, "two sizes are, of rows and columns");
  }
  return ScaledBlock{value[0].get<int64_t>(), value[1].get<int64_t>()};
}

// compressed-tensors says for each group of layers how its weights were rounded.
absl::StatusOr<std::optional<ScaledBlock>> CompressedBlock(const json& quantisation, const json& config) {
  const json format = quantisation.value("format", json());
  if (format != "float-quantized") {
    return Refuse("quantization_config.format", format,
                  absl::StrCat("only \"float-quantized\" is: ", Original(config)));
  }
  std::optional<ScaledBlock> block;
  const json groups = quantisation.value("config_groups", json::object());
  for (const auto& [name, group] : groups.items()) {
    if (!group.is_object()) return Refuse("quantization_config.config_groups", group, "an object is");
    const json weights = group.value("weights", json());
    const bool is_float8 = weights.is_object() && weights.value("type", json()) == "float" &&
                           weights.value("num_bits", json()) == 8 && weights.value("symmetric", json(true)) == true;
    if (!is_float8) {
      return Refuse(
          absl::StrCat("quantization_config.config_groups.", name, ".weights"), weights,
          absl::StrCat("only symmetric ones of \"type\": \"float\" and \"num_bits\": 8 are: ", Original(config)));
    }
    DISTILL_ASSIGN_OR_RETURN(const auto found, BlockOf(weights.value("block_structure", json()), "block_structure"));
    if (found.has_value()) block = found;
  }
  return block;
}

// How weights of a kind that is read are stored. Which of them are, the files tell: what config.json excepts
// ("modules_to_not_convert", "ignore") lies there as numbers.
struct StoredAs {
  bool is_mxfp4 = false;
  // Of rows and columns that share a scale; none: rows or whole weights do.
  std::optional<ScaledBlock> block = std::nullopt;
};

absl::StatusOr<StoredAs> ReadQuantisation(const json& quantisation, const json& config) {
  DISTILL_ASSIGN_OR_RETURN(const std::string method, MethodOf(quantisation));
  StoredAs stored = {.is_mxfp4 = method == kMxfp4};
  if (method == kFp8) {
    DISTILL_ASSIGN_OR_RETURN(stored.block,
                             BlockOf(quantisation.value("weight_block_size", json()), "weight_block_size"));
    return stored;
  }
  if (method == kCompressedTensors) {
    DISTILL_ASSIGN_OR_RETURN(stored.block, CompressedBlock(quantisation, config));
    return stored;
  }
  if (method == kMxfp4) return stored;
  return absl::InvalidArgumentError(absl::StrCat(
      "its weights are quantised by ", method, ", which is not read: ", Conversion(method, config), " (", kRead, ")"));
}

absl::StatusOr<json> ReadConfig(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const ConfigText source, ReadConfigJson(folder));
  absl::StatusOr<json> config = ParseConfigObject(source.text);
  if (!config.ok()) return Annotate(config.status(), source.name);
  return config;
}

absl::Status RefuseTraining(const json& quantisation, const json& config) {
  DISTILL_ASSIGN_OR_RETURN(const std::string method, MethodOf(quantisation));
  return absl::InvalidArgumentError(absl::StrCat("its weights are quantised by ", method,
                                                 ", and only a teacher's may be: ", Conversion(method, config)));
}

absl::Status RefuseGguf(const std::string& folder) {
  return absl::InvalidArgumentError(absl::StrCat(
      folder,
      ": the GGUF file's weights are quantised, and only a teacher's may be: take the model that it was made from, ",
      "or load it in transformers (from_pretrained with gguf_file=NAME), save it with model.save_pretrained(FOLDER), "
      "and ",
      "name that folder"));
}

}  // namespace

absl::Status CheckQuantisation(const json& config) {
  const auto of_mlx = config.find("quantization");
  if (of_mlx != config.end() && !of_mlx->is_null()) {
    return Refuse("quantization", *of_mlx, absl::StrCat("MLX's integers are not read: ", Original(config)));
  }
  const json* quantisation = FindQuantisation(config);
  return quantisation == nullptr ? absl::OkStatus() : ReadQuantisation(*quantisation, config).status();
}

absl::StatusOr<WeightsFolder> OpenWeights(const std::string& folder, const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(WeightsFolder weights, WeightsFolder::Open(folder));
  if (weights.has_gguf_blocks() && !options.dequantise) return RefuseGguf(folder);
  DISTILL_ASSIGN_OR_RETURN(const json config, ReadConfig(folder));
  const json* quantisation = FindQuantisation(config);
  if (quantisation == nullptr) return weights;
  const std::string path = JoinPath(folder, "config.json");
  const absl::StatusOr<StoredAs> stored = ReadQuantisation(*quantisation, config);
  if (!stored.ok()) return Annotate(stored.status(), path);
  if (!options.dequantise) return Annotate(RefuseTraining(*quantisation, config), path);
  DISTILL_RETURN_IF_ERROR(stored->is_mxfp4 ? weights.Unpack() : weights.Scale(stored->block));
  return weights;
}

absl::Status CheckTrainable(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const json config, ReadConfig(folder));
  const json* quantisation = FindQuantisation(config);
  if (quantisation == nullptr) {
    return WeightsFolder::IsGguf(folder) ? OpenWeights(folder, {}).status() : absl::OkStatus();
  }
  return Annotate(RefuseTraining(*quantisation, config), JoinPath(folder, "config.json"));
}

}  // namespace distill
