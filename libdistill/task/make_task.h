// A task out of batches and callables: what most programs of one's own want.
//
//   auto batches = MakeBatches(std::move(sharder), [](auto rows) { return StackRows(rows); });
//   auto task = MakeTask(std::move(batches), {.forward = [&](const TensorBatch& batch) {
//     const torch::Tensor logits = model->forward(batch["x"]);
//     return Losses{{"loss", torch::cross_entropy_loss(logits, batch["label"], {}, at::Reduction::Sum), batch.rows()}};
//   }});
//   DISTILL_ASSIGN_OR_RETURN(const TrainResult result, trainer->Fit(*task));
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/data/batches.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/task/batch_task.h"
#include "libdistill/task/device_batch.h"

namespace distill {

// B: TensorBatch, or TokenBatch for language models. Callables may throw.
template <typename B>
struct TaskParts {
  // A pass: each loss term with its sum, and its count as the batch has it (Batch::Count of the term's name, by default
  // the rows; of a TokenBatch, its labels).
  std::function<Losses(const B& batch)> forward;
  std::vector<TermWeight> loss_terms = {{"loss"}};
  std::vector<std::string> reported = {};  // names of the further terms that `forward` returns
  // A held-out pass, of every batch with a sample, labels or not; empty: the means of what `forward` returns, of the
  // batches that have a loss.
  std::function<void(const B& batch, Metrics& metrics)> evaluate = nullptr;
  // Metrics out of the predictions of all ranks, beside the means; called on rank 0.
  std::function<absl::StatusOr<MetricValues>(const Predictions& predictions)> summarize = nullptr;
  // Writes the model into a folder, on rank 0; empty: model.safetensors.
  std::function<absl::Status(const std::string& folder)> save = nullptr;
  // Parameters of which the first rows alone are trained.
  std::map<std::string, int64_t> trained_rows = {};
  // A frozen teacher in this process, if there is one: an error of memory tells its weights' size.
  std::shared_ptr<const torch::nn::Module> teacher = nullptr;
  // Settings that must be the same on every rank.
  Fields fingerprint = {};
};

// Tensors are loaded, and sent to a GPU, on the threads that make batches.
std::unique_ptr<BatchTask<TensorBatch>> MakeTask(Batches<TensorBatch> batches, TaskParts<TensorBatch> parts);
std::unique_ptr<BatchTask<TokenBatch>> MakeTask(TokenBatches batches, TaskParts<TokenBatch> parts);

// Batches of `sharder`'s samples, which `collate` makes.
Batches<TensorBatch> MakeBatches(DataSharder sharder, Batches<Batch>::Collator collate, Fields collator_fields = {});

}  // namespace distill
