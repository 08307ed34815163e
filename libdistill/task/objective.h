// What a batch of type B costs a model, and how the model is judged by held-out ones: the part of a task that a
// researcher changes. BatchTask (batch_task.h) makes a task of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <c10/core/Stream.h>
#include <torch/nn/module.h>

#include "absl/status/statusor.h"
#include "libdistill/nn/weight_gate.h"
#include "libdistill/task/evaluator.h"
#include "libdistill/task/losses.h"
#include "libdistill/tensor/peak_memory.h"

namespace distill {

// The name of a frozen teacher's weights in HeldMemory.
inline constexpr char kTeacherWeights[] = "teacher's weights";
// HeldMemory of an objective with such a teacher in this process; of null nothing.
inline NamedBytes MemoryOfTeacher(const torch::nn::Module* teacher, c10::DeviceType type) {
  return teacher == nullptr ? NamedBytes() : NamedBytes{{kTeacherWeights, WeightBytes(*teacher, type)}};
}

template <typename B>
class Objective {
 public:
  virtual ~Objective() = default;

  // As Task's.
  virtual std::vector<TermWeight> LossTerms() const { return {{"loss"}}; }
  virtual std::vector<std::string> Reported() const { return {}; }
  [[nodiscard]] virtual absl::StatusOr<Fields> Fingerprint() const { return Fields(); }
  virtual std::map<std::string, int64_t> TrainedRows(const torch::nn::Module& module) const {
    (void)module;
    return {};
  }
  [[nodiscard]] virtual absl::Status SaveModel(const torch::nn::Module& module, const std::string& folder) const {
    (void)module, (void)folder;
    return absl::UnimplementedError("the objective has no format of its own");
  }
  virtual bool saves_in_order() const { return true; }
  virtual bool losses_are_final() const { return false; }
  // Memory of this rank, on devices of this type, beside that of the trained module: {{kTeacherWeights, ...}}.
  virtual NamedBytes HeldMemory(c10::DeviceType type) const {
    (void)type;
    return {};
  }

  // What each loss term will count in the batch. A batch in which all count 0 is not run.
  virtual std::vector<int64_t> Counts(const B& batch) const = 0;
  // Tokens of the batch, for tokens_per_second; 0 where there is no such thing.
  virtual int64_t Tokens(const B& batch) const {
    (void)batch;
    return 0;
  }
  // On a thread that makes batches, once for each, several at a time: what can be done ahead of its pass. For a GPU,
  // `copies` is the stream on which copies to it are enqueued, without waiting for them; null on a CPU.
  virtual void Prepare(B& batch, const c10::Stream* copies) const { (void)batch, (void)copies; }
  // Runs the model: with gradients while training, without in an evaluation. May throw.
  virtual Losses Forward(const B& batch, const PassScale& scale) const = 0;

  // Whether a held-out batch is evaluated at all: where a loss term counts anything. Override it together with an
  // Evaluate that needs no labels, as one that only predicts: that is to have every batch with a sample.
  virtual bool Evaluates(const B& batch) const { return CountsAnything(Counts(batch)); }
  // One held-out batch, without gradients: the means of all terms, unless overridden. May throw.
  [[nodiscard]] virtual absl::Status Evaluate(const B& batch, Metrics& metrics) const {
    for (const LossTerm& term : Forward(batch, {}).terms) metrics.Mean(term.name, term.sum, term.count);
    return absl::OkStatus();
  }
  // As Evaluator's: the means, and "loss", the weighted sum of the loss terms' means where all are there.
  [[nodiscard]] virtual absl::StatusOr<MetricValues> Summarize(const MetricValues& means,
                                                               const Predictions& predictions) const {
    (void)predictions;
    MetricValues values = means;
    const std::vector<TermWeight> terms = LossTerms();
    const LossOfMeans loss = WeighMeans(terms, means);
    if (loss.terms == terms.size()) values[kLossName] = loss.value;
    return values;
  }
};

}  // namespace distill
