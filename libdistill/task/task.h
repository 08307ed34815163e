// The contract of what a Trainer trains. Distillation, training on labels, and a task of one's own are equals behind
// it:
//
//   DISTILL_ASSIGN_OR_RETURN(auto task, Distiller::Create(teacher, student, batches, {.temperature = 2}));
//   trainer->Fit(*task);
//
// Most tasks need none of this: BatchTask (task/batch_task.h) is one out of batches and an objective, MakeTask
// (task/make_task.h) one out of batches and a callable. Derive from Task what makes its own steps: generation in the
// loop, several teachers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include "absl/status/statusor.h"
#include "libdistill/task/evaluator.h"
#include "libdistill/task/losses.h"
#include "libdistill/tensor/peak_memory.h"

namespace distill {

// One micro-batch, whatever it is made of.
struct MicroStep {
  std::vector<int64_t> counts;  // what each loss term will count, in the order of Task::LossTerms
  int64_t num_tokens = 0;       // for tokens_per_second; 0 where there is no such thing
  int64_t num_samples = 0;
  std::vector<int64_t> sample_ids = {};  // of the data set, for messages about a loss that is not finite; may be empty
  // Runs the model, with gradients. Not called where all counts are 0. May throw. A term's count must be the one above.
  // Called once more, without gradients, where it threw or the step's loss is not finite, to say where that came from.
  std::function<Losses(const PassScale& scale)> forward = nullptr;

  bool has_loss() const { return CountsAnything(counts); }
  // "micro-batch 2 of 8, samples 3, 17", for number 1 from 0.
  std::string Describe(int64_t number, int64_t of) const;
};

class Task {
 public:
  virtual ~Task() = default;

  // --- What is counted. The same on every rank, and from the first step to the last.
  // Each of these is divided by its own count (losses.h). The first count that is not 0 divides the gradients.
  virtual std::vector<TermWeight> LossTerms() const { return {{"loss"}}; }
  // What passes report besides: names of further terms, logged as means.
  virtual std::vector<std::string> Reported() const { return {}; }

  // --- Steps.
  // Before the first step of a Fit, for a model on `device`; and when Fit ends, well or not: threads stop, and what was
  // made ahead goes.
  virtual void Start(c10::Device device) { (void)device; }
  virtual void Stop() {}
  // Steps of an epoch, from 0; the same on every rank. Epochs may differ in length.
  [[nodiscard]] virtual absl::StatusOr<int64_t> StepsInEpoch(int64_t epoch) = 0;
  // This rank's micro-batches of the next step. May block, and fail: a store may be away, a remote teacher slow. An
  // error ends all ranks with it.
  [[nodiscard]] virtual absl::StatusOr<std::vector<MicroStep>> NextStep() = 0;

  // --- Resuming.
  // Where the next step starts, as bytes that only the task itself reads: with the version of their form. Rank 0's are
  // saved with each checkpoint, and given to every rank when the run is resumed.
  virtual std::string Position() const = 0;
  [[nodiscard]] virtual absl::Status Restore(const std::string& position) = 0;

  // --- Agreement.
  // What must be the same on every rank for their steps to belong together, by name: settings, a checksum of the data.
  [[nodiscard]] virtual absl::StatusOr<Fields> Fingerprint() { return Fields(); }

  // --- The model.
  // Parameters of which only the first rows are trained, by their names in `module`: the others stay as they are,
  // without decay.
  virtual std::map<std::string, int64_t> TrainedRows(const torch::nn::Module& module) const {
    (void)module;
    return {};
  }
  // Writes what loads the model again into an existing folder. Called on rank 0. Unimplemented: the trainer writes
  // parameters and buffers of its module to model.safetensors, under their names.
  [[nodiscard]] virtual absl::Status SaveModel(const torch::nn::Module& module, const std::string& folder) const {
    (void)module, (void)folder;
    return absl::UnimplementedError("the task has no format of its own");
  }
  // Whether SaveModel reads weights by WeightsInOrder alone (nn/weight_gate.h), so that a sharded model need not be
  // gathered for it.
  virtual bool saves_in_order() const { return true; }

  // Whether each pass's loss is differentiated as it is, times PassScale::gradient_scale alone, so that what it adds to
  // a parameter's gradient while it is computed (GradientSink::BorrowSum) is final.
  virtual bool losses_are_final() const { return false; }

  // What it holds of this rank's memory, on devices of this type, beside the trained module; for an error that tells
  // where memory went. As Objective's.
  virtual NamedBytes HeldMemory(c10::DeviceType type) const {
    (void)type;
    return {};
  }

  // --- Evaluation. Null: there is no held-out data. It lives as long as the task.
  virtual Evaluator* evaluator() { return nullptr; }
};

}  // namespace distill
