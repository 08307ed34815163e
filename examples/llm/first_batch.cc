#include "examples/llm/first_batch.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <torch/utils.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/log.h"
#include "libdistill/nn/logits.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/unbacked.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

absl::Status CheckWeights(const RunContext& run, const char* option, const Decoder& model) {
  const torch::NoGradGuard no_grad;
  double largest = 0;
  bool reads_any = false;
  for (const auto& parameter : model.named_parameters()) {
    const torch::Tensor& weight = parameter.value();
    if (!HasMemory(weight) || weight.numel() == 0) continue;
    const auto norm = at::linalg_vector_norm(weight, INFINITY).item<double>();
    if (!std::isfinite(norm)) {
      return absl::InvalidArgumentError(absl::StrCat(
          option, ": ", model.source_folder(), ": tensor \"", parameter.key(),
          "\" holds values that are not finite: a ",
          "training that failed, a damaged copy, or numbers that do not fit ", c10::toString(weight.scalar_type())));
    }
    if (weight.dim() < 2) continue;
    reads_any = true;
    largest = std::max(largest, norm);
  }
  if (reads_any && largest == 0 && run.rank() == 0) {
    LogWarning(absl::StrCat(option, ": ", model.source_folder(),
                            ": all of its matrices are zero; was the file written ", "before its weights were there?"));
  }
  return absl::OkStatus();
}

// Of the first of the micro-batches that has one; null: none has.
const TokenBatch* FindLoss(const std::vector<TokenBatch>& batches) {
  const auto found =
      std::find_if(batches.begin(), batches.end(), [](const TokenBatch& batch) { return batch.num_loss_tokens() > 0; });
  return found == batches.end() ? nullptr : &*found;
}

absl::Status CheckLosses(const RunContext& run, const LlmModels& models, const LogitDistillation& objective,
                         const TokenBatch& batch) {
  const torch::NoGradGuard no_grad;
  const Losses losses = objective.Forward(batch, {});  // warns of a teacher that knows nothing
  const auto mean = [](const LossTerm& term) { return term.sum.item<double>() / static_cast<double>(term.count); };
  const double loss = mean(*losses.Find("ce")), chance = std::log(static_cast<double>(objective.vocabulary()));
  if (!std::isfinite(loss)) {
    return absl::InvalidArgumentError(absl::StrCat("student_model: ", models.student->source_folder(),
                                                   ": its logits of the first batch are not finite"));
  }
  for (const LossTerm& term : losses.terms) {
    if (std::isfinite(mean(term))) continue;
    return absl::InvalidArgumentError(absl::StrCat("teacher_model: ", models.teacher->source_folder(),
                                                   ": its logits of the first batch are not finite"));
  }
  if (!models.student_has_weights || loss < kShareOfChance * chance || run.rank() != 0) return absl::OkStatus();
  LogWarning(absl::StrFormat(
      "the student knows no more of this data than chance, although it comes with weights: its loss on the first batch "
      "is %.2f, the logarithm of the vocabulary %.2f. Are they those of a trained model, and its tokenizer the right "
      "one "
      "(%s)?",
      loss, chance, models.student->source_folder()));
  return absl::OkStatus();
}

bool IsShared(const RunContext& run, const LlmOptions& options) {
  return run.world_size() > 1 && (options.shard_teacher || options.trainer.zero_stage == 3);
}

std::string Quoted(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  return absl::StrCat("\"", absl::StrReplaceAll(tokenizer.Decode(ids), {{"\n", "\\n"}, {"\r", "\\r"}, {"\"", "\\\""}}),
                      "\"");
}

// float32 [N, V]: the distributions at these places.
torch::Tensor Probabilities(Decoder& model, const TokenTensors& tensors, const torch::Tensor& places) {
  return torch::softmax(LogitsOf(model, model.HeadInput(model.HiddenAt(tensors.input, places))), -1).cpu();
}

// One line for each place: "Red" 0.61, "Blue" 0.12, ...
std::vector<std::string> Likeliest(const torch::Tensor& probabilities, const Tokenizer& tokenizer) {
  constexpr int64_t kShown = 5;
  const auto [values, ids] = probabilities.topk(std::min<int64_t>(kShown, probabilities.size(1)));
  std::vector<std::string> lines;
  for (int64_t row = 0; row < values.size(0); ++row) {
    std::string& line = lines.emplace_back();
    for (int64_t i = 0; i < values.size(1); ++i) {
      const auto id = static_cast<int32_t>(ids[row][i].item<int64_t>());
      const std::string text =
          id < tokenizer.vocab_size() ? Quoted(tokenizer, {id}) : absl::StrCat("id ", id, ", which is no token");
      absl::StrAppendFormat(&line, "%s%s %.3f", i == 0 ? "" : ", ", text, values[row][i].item<float>());
    }
  }
  return lines;
}

// The models whose folders have weights, under what they are called.
absl::StatusOr<std::vector<std::pair<std::string, std::shared_ptr<Decoder>>>> ModelsToAsk(const RunContext& run,
                                                                                          const LlmOptions& options) {
  const LoadOptions load = {
      .dtype = WorkingType(options.trainer, run.device()), .device = run.device(), .dequantise = true};
  std::vector<std::pair<std::string, std::shared_ptr<Decoder>>> models;
  for (const auto& [name, folder] :
       {std::pair("teacher", options.teacher_model), std::pair("student", options.student_model)}) {
    if (folder.empty()) continue;
    DISTILL_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(folder));
    if (!has_weights) continue;
    DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<Decoder> model, LoadDecoder(folder, load));
    models.emplace_back(name, std::move(model));
  }
  return models;
}

}  // namespace

absl::Status CheckFirstBatch(const RunContext& run, const LlmOptions& options, const LlmText& text,
                             const LlmModels& models, const LogitDistillation& objective) {
  const bool resumes = WillResume(options.trainer);  // then the student's weights are the checkpoint's
  return CatchTorch([&]() -> absl::Status {
    if (models.teacher != nullptr) DISTILL_RETURN_IF_ERROR(CheckWeights(run, "teacher_model", *models.teacher));
    if (resumes) return absl::OkStatus();
    if (models.student_has_weights) DISTILL_RETURN_IF_ERROR(CheckWeights(run, "student_model", *models.student));
    // The student is float32 still, which flash attention does not take; shared models answer all ranks together.
    if (options.use_flash_attention || IsShared(run, options)) {
      LogInfo(
          "what the models make of the first batch is not looked at before the first step: flash attention, or "
          "models that are sharded");
      return absl::OkStatus();
    }
    DISTILL_ASSIGN_OR_RETURN(TokenBatches batches, ShardTraining(options, text, run.world()));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<TokenBatch> micro_batches, batches.NextStep());
    const TokenBatch* batch = FindLoss(micro_batches);
    return batch == nullptr ? absl::OkStatus() : CheckLosses(run, models, objective, *batch);
  });
}

absl::StatusOr<std::string> DescribeAnswers(const RunContext& run, const LlmOptions& options, const TokenBatch& batch,
                                            const Tokenizer& tokenizer) {
  constexpr int64_t kPlaces = 4;
  std::string out;
  if (batch.num_loss_tokens() == 0) return out;
  DISTILL_ASSIGN_OR_RETURN(const auto models, ModelsToAsk(run, options));
  if (models.empty()) return out;
  DISTILL_RETURN_IF_ERROR(CatchTorch([&] {
    const torch::NoGradGuard no_grad;
    const TokenTensors tensors = ToTensors(batch, run.device());
    const torch::Tensor places = tensors.positions.narrow(0, 0, std::min(kPlaces, tensors.positions.size(0)));
    std::vector<std::vector<std::string>> answers;
    for (const auto& [name, model] : models) {
      answers.push_back(Likeliest(Probabilities(*model, tensors, places), tokenizer));
    }
    absl::StrAppend(&out, "the likeliest tokens at the first places with a loss\n");
    const torch::Tensor at = places.cpu();
    for (int64_t i = 0; i < at.size(0); ++i) {
      const auto place = static_cast<size_t>(at[i].item<int64_t>());
      absl::StrAppendFormat(&out, "row %d, token %d: %s follows %s\n", place / batch.length, place % batch.length + 1,
                            Quoted(tokenizer, {batch.labels[place]}), Quoted(tokenizer, {batch.input_ids[place]}));
      for (size_t m = 0; m < models.size(); ++m) {
        absl::StrAppend(&out, "  ", models[m].first, " | ", answers[m][static_cast<size_t>(i)], "\n");
      }
    }
    return absl::OkStatus();
  }));
  return out;
}

}  // namespace distill
