#include "libdistill/nn/encoder_student.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/encoder_body.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

using Json = nlohmann::ordered_json;
using torch::Tensor;

std::vector<int64_t> EveryOther(int64_t blocks) {
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < blocks; layer += 2) layers.push_back(layer);
  return layers;
}

absl::Status CheckLayers(const std::vector<int64_t>& layers, int64_t blocks) {
  for (const int64_t layer : layers) {
    if (layer >= 0 && layer < blocks) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("teacher_layers: there is no layer ", layer, ": the teacher has ", blocks, ", 0 to ", blocks - 1));
  }
  return absl::OkStatus();
}

Json DistilBertJson(const EncoderConfig& teacher, int64_t blocks) {
  return {{"architectures", Json::array({"DistilBertForMaskedLM"})},
          {"model_type", "distilbert"},
          {"vocab_size", teacher.vocab_size},
          {"dim", teacher.hidden_size},
          {"hidden_dim", teacher.intermediate_size},
          {"n_layers", blocks},
          {"n_heads", teacher.num_attention_heads},
          {"max_position_embeddings", teacher.max_position_embeddings},
          {"activation", "gelu"},
          {"sinusoidal_pos_embds", false},
          {"dropout", teacher.hidden_dropout},
          {"attention_dropout", teacher.attention_dropout},
          {"initializer_range", teacher.initializer_range},
          {"pad_token_id", teacher.pad_token_id < 0 ? Json() : Json(teacher.pad_token_id)},
          {"tie_weights_", true},
          {"torch_dtype", "float32"}};
}

// The teacher's own, with another number of blocks.
absl::StatusOr<Json> JsonOfSameFamily(const EncoderConfig& teacher, int64_t blocks) {
  Json json = Json::parse(teacher.json, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("the teacher's config came without its config.json");
  json[teacher.model_type == "distilbert" ? "n_layers" : "num_hidden_layers"] = blocks;
  json["architectures"] =
      Json::array({teacher.model_type == "distilbert" ? "DistilBertForMaskedLM" : "RobertaForMaskedLM"});
  return json;
}

}  // namespace

absl::StatusOr<EncoderConfig> StudentConfig(const EncoderConfig& teacher, const std::vector<int64_t>& layers) {
  DISTILL_RETURN_IF_ERROR(CheckLayers(layers, teacher.num_hidden_layers));
  const auto blocks = static_cast<int64_t>((layers.empty() ? EveryOther(teacher.num_hidden_layers) : layers).size());
  if (teacher.model_type == "bert") return ParseEncoderConfig(DistilBertJson(teacher, blocks).dump(), "the student");
  DISTILL_ASSIGN_OR_RETURN(const Json json, JsonOfSameFamily(teacher, blocks));
  return ParseEncoderConfig(json.dump(), "the student");
}

void Encoder::CopyFrom(const Encoder& other, const std::vector<int64_t>& layers) {
  const torch::NoGradGuard no_grad;
  body_->CopyEmbeddings(*other.body_);
  const auto ours = BlockWeights(), theirs = other.BlockWeights();
  for (size_t i = 0; i < ours.size(); ++i) {
    const std::vector<Tensor>& from = theirs.at(static_cast<size_t>(layers[i]));
    for (size_t j = 0; j < ours[i].size(); ++j) Tensor(ours[i][j]).copy_(from[j]);
  }
  std::vector<Tensor> head = HeadWeights(), head_of_other = other.HeadWeights();
  for (size_t i = 0; i < head.size(); ++i) head[i].copy_(head_of_other[i]);
}

absl::StatusOr<std::shared_ptr<Encoder>> MakeStudent(const Encoder& teacher, const std::vector<int64_t>& layers) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, StudentConfig(teacher.config(), layers));
  const std::vector<int64_t> taken = layers.empty() ? EveryOther(teacher.config().num_hidden_layers) : layers;
  std::shared_ptr<Encoder> student;
  DISTILL_RETURN_IF_ERROR(CatchTorch([&] {
    student = std::make_shared<Encoder>(config);
    student->CopyFrom(teacher, taken);
    return absl::OkStatus();
  }));
  // What ranks compare: the teacher's content says the rest.
  ModelContent content = teacher.content();
  ContentHash blocks;
  blocks.Add(taken.data(), taken.size() * sizeof(int64_t));
  content.emplace_back("hash of the teacher's blocks that it is made of", blocks.Hex());
  student->SetSource(teacher.source_folder(), std::move(content));
  return student;
}

}  // namespace distill
