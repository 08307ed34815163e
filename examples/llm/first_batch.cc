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

absl::Status CheckWeightsOf(const RunContext& run, const char* option, const Decoder& model) {
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

absl::Status NotFinite(const char* option, const std::string& folder) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", folder,
                   ": its logits of the first batch are not finite: the weights of a training that failed, a "
                   "damaged copy, or numbers that do not fit the type it runs in"));
}

constexpr char kHidden[] = "hidden";  // LogitDistillation's term of the states

// The logits of both models are finite, so that it is neither's weights alone.
absl::Status StatesNotFinite(const LlmModels& models) {
  return absl::InvalidArgumentError(absl::StrCat(
      "hidden_weight: the term \"", kHidden, "\" of the first batch is not finite, although the logits are: states of ",
      models.student->source_folder(), " (student_model) or of ", models.teacher->source_folder(),
      " (teacher_model), or their squared difference, do not fit the type they run in; compare other layers ",
      "(layer_map), or set hidden_weight to 0"));
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

absl::Status CheckWeights(const RunContext& run, const LlmOptions& options, const LlmModels& models) {
  return CatchTorch([&]() -> absl::Status {
    if (models.teacher != nullptr) DISTILL_RETURN_IF_ERROR(CheckWeightsOf(run, "teacher_model", *models.teacher));
    if (!models.student_has_weights || WillResume(options.trainer)) return absl::OkStatus();
    return CheckWeightsOf(run, "student_model", *models.student);
  });
}

absl::StatusOr<std::optional<TokenBatch>> FindFirstBatch(const LlmOptions& options, const LlmText& text,
                                                         const World& world) {
  if (WillResume(options.trainer)) return std::nullopt;
  DISTILL_ASSIGN_OR_RETURN(TokenBatches batches, ShardTraining(options, text, world));
  DISTILL_ASSIGN_OR_RETURN(std::vector<TokenBatch> micro_batches, batches.NextStep());
  for (TokenBatch& batch : micro_batches) {
    if (batch.num_loss_tokens() > 0) return std::move(batch);
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<Evaluator::Pass>> FirstBatchCheck::NextStep() {
  if (!batch_.has_value()) return std::vector<Pass>{nullptr};
  return std::vector<Pass>{[this](Metrics& metrics) {
    // Warns of a teacher that knows nothing.
    for (const LossTerm& term : objective_->Forward(*batch_, {}).terms) metrics.Mean(term.name, term.sum, term.count);
    return absl::OkStatus();
  }};
}

absl::Status FirstBatchCheck::OnBegin(int64_t step) {
  if (step > 0) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const MetricValues means, trainer_.Evaluate(*this));
  const auto found = means.find("ce");
  if (found == means.end()) return absl::OkStatus();  // no rank has a token with a loss
  const double loss = found->second, chance = std::log(static_cast<double>(objective_->vocabulary()));
  if (!std::isfinite(loss)) return NotFinite("student_model", models_.student->source_folder());
  for (const auto& [name, mean] : means) {
    if (name == kHidden || std::isfinite(mean)) continue;
    return NotFinite("teacher_model", models_.teacher->source_folder());
  }
  const auto states = means.find(kHidden);
  if (states != means.end() && !std::isfinite(states->second)) return StatesNotFinite(models_);
  if (!models_.student_has_weights || loss < kShareOfChance * chance || run_.rank() != 0) return absl::OkStatus();
  LogWarning(absl::StrFormat(
      "the student knows no more of this data than chance, although it comes with weights: its loss on the first batch "
      "is %.2f, the logarithm of the vocabulary %.2f. Are they those of a trained model, and its tokenizer the right "
      "one (%s)?",
      loss, chance, models_.student->source_folder()));
  return absl::OkStatus();
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
