#include "examples/llm/judge.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <set>
#include <string>

#include "libdistill/distill.h"
#include "libdistill/nn/logits.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/store/weights_folder.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/task/logit_distillation.h"

namespace distill {
namespace {

using torch::Tensor;

constexpr int64_t kRows = 64;          // of a batch
constexpr int64_t kChunkTokens = 256;  // whose logits are in memory at once
constexpr size_t kBins = 15;

// Sums over the tokens of answers.
struct Sums {
  int64_t tokens = 0;
  double loss = 0, kl = 0, agreed = 0;
  struct Bin {
    double sure = 0, right = 0;
  };
  std::array<Bin, kBins> bins;

  double CalibrationError() const {
    double error = 0;
    for (const Bin& bin : bins) error += std::abs(bin.sure - bin.right);
    return error / static_cast<double>(tokens);
  }
};

// [N, V] of log-probabilities, in float32.
Tensor LogProbabilities(const Decoder& model, const Tensor& input, int64_t vocabulary) {
  return at::log_softmax(LogitsOf(model, input, vocabulary), 1);
}

void AddCalibration(const Tensor& sure, const Tensor& right, Sums& sums) {
  const Tensor host = torch::stack({sure, right.to(sure.dtype())}).to(torch::kCPU);
  const auto values = host.accessor<float, 2>();
  for (int64_t i = 0; i < host.size(1); ++i) {
    // As (0, 1/15], (1/15, 2/15], ...
    const auto bin = static_cast<size_t>(std::max(0.0, std::ceil(static_cast<double>(values[0][i]) * kBins) - 1));
    sums.bins[std::min(bin, kBins - 1)].sure += static_cast<double>(values[0][i]);
    sums.bins[std::min(bin, kBins - 1)].right += static_cast<double>(values[1][i]);
  }
}

// Of at most kChunkTokens tokens. `teacher_input` is undefined without a teacher.
void AddChunk(const Decoder* teacher, const Decoder& model, const Tensor& teacher_input, const Tensor& input,
              const Tensor& labels, int64_t vocabulary, Sums& sums) {
  const Tensor found = LogProbabilities(model, input, vocabulary);
  sums.loss -= found.gather(1, labels.unsqueeze(1)).sum(torch::kFloat64).item<double>();
  const auto [best, best_id] = found.max(1);
  AddCalibration(best.exp(), best_id == labels, sums);
  if (teacher == nullptr) return;
  const Tensor wanted = LogProbabilities(*teacher, teacher_input, vocabulary);
  sums.kl += at::sum(wanted.exp() * (wanted - found), torch::kFloat64).item<double>();
  sums.agreed += (wanted.argmax(1) == best_id).sum().item<double>();
}

Tensor HeadInputOf(Decoder& model, const TokenTensors& tensors) {
  return model.HeadInput(model.HiddenAt(tensors.input, tensors.positions));
}

absl::StatusOr<Sums> SumUp(Decoder* teacher, Decoder& model, int64_t vocabulary, const HeldOut& held_out) {
  ShardOptions options;
  options.rows_per_rank = kRows;
  options.shuffle = false;
  DISTILL_ASSIGN_OR_RETURN(auto batches, TokenBatches::Create(held_out.data.tokens, 0, 1, options));
  Sums sums;
  DISTILL_ASSIGN_OR_RETURN(const int64_t steps, batches.StepsInEpoch(0));
  for (int64_t step = 0; step < steps; ++step) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<TokenBatch> micro_batches, batches.NextStep());
    for (const TokenBatch& batch : micro_batches) {
      if (batch.num_loss_tokens() == 0) continue;
      const TokenTensors tensors = ToTensors(batch, model.head_weight().device());
      const Tensor input = HeadInputOf(model, tensors);
      const Tensor teacher_input = teacher != nullptr ? HeadInputOf(*teacher, tensors) : Tensor();
      for (int64_t begin = 0; begin < input.size(0); begin += kChunkTokens) {
        const int64_t count = std::min(kChunkTokens, input.size(0) - begin);
        const Tensor part = teacher != nullptr ? teacher_input.narrow(0, begin, count) : Tensor();
        AddChunk(teacher, model, part, input.narrow(0, begin, count), tensors.labels.narrow(0, begin, count),
                 vocabulary, sums);
        sums.tokens += count;
      }
    }
  }
  return sums;
}

// An answer ends where the data's tokenizer says, or where the model's own folder says.
absl::Status AddAnswers(Decoder& model, const HeldOut& held_out, Figures& figures) {
  const Questions& questions = held_out.questions;
  if (questions.prompts.empty()) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(std::vector<int32_t> ends, ReadStopIds(model.source_folder()));
  ends.insert(ends.end(), held_out.ends.begin(), held_out.ends.end());
  GenerateOptions options;
  options.max_new_tokens = questions.max_new_tokens;
  options.stop_ids = ends;
  options.vocabulary = std::min(held_out.tokenizer.vocab_size(), model.head_weight().size(0));
  const auto start = std::chrono::steady_clock::now();
  const auto answers = Generate(model, questions.prompts, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  int64_t right = 0, tokens = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const bool ended = !answers[i].empty() && std::find(ends.begin(), ends.end(), answers[i].back()) != ends.end();
    const auto words = absl::MakeConstSpan(answers[i].data(), answers[i].size() - (ended ? 1 : 0));
    right += ended && held_out.tokenizer.Decode(words) == questions.answers[i];
    tokens += static_cast<int64_t>(answers[i].size());
  }
  figures.exact_match = static_cast<double>(right) / static_cast<double>(answers.size());
  figures.tokens_per_second = static_cast<double>(tokens) / seconds.count();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int64_t>> WeightBytes(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(folder));
  if (!has_weights) return std::nullopt;
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, store->List(folder));
  DISTILL_ASSIGN_OR_RETURN(const WeightsFolder weights, WeightsFolder::Open(folder));
  std::set<std::string> files;  // others may lie there, too
  for (const std::string& name : weights.Names()) files.insert(weights.FileOf(name));
  int64_t bytes = 0;
  for (const FolderEntry& entry : entries) bytes += files.count(JoinPath(folder, entry.name)) > 0 ? entry.size : 0;
  return bytes;
}

}  // namespace

absl::StatusOr<Figures> Judge(const std::shared_ptr<Decoder>& teacher, const std::shared_ptr<Decoder>& model,
                              const HeldOut& held_out) {
  const torch::NoGradGuard no_grad;
  // Checks that both fit, and says how many ids both know.
  const DistillationOptions options{.temperature = 1, .alpha = teacher != nullptr ? 1.0 : 0.0};
  DISTILL_ASSIGN_OR_RETURN(const auto objective, LogitDistillation::CreateLive(teacher, model, options));
  Figures figures;
  for (const Tensor& parameter : model->parameters()) figures.parameters += parameter.numel();
  DISTILL_ASSIGN_OR_RETURN(figures.weight_bytes, WeightBytes(model->source_folder()));
  DISTILL_ASSIGN_OR_RETURN(const Sums sums, SumUp(teacher.get(), *model, objective->vocabulary(), held_out));
  const auto tokens = static_cast<double>(sums.tokens);
  figures.loss = sums.loss / tokens;
  figures.calibration_error = sums.CalibrationError();
  if (teacher != nullptr) {
    figures.kl = sums.kl / tokens;
    figures.top1_agreement = sums.agreed / tokens;
  }
  DISTILL_RETURN_IF_ERROR(AddAnswers(*model, held_out, figures));
  return figures;
}

}  // namespace distill
