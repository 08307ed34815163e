#include "libdistill/shard/training_sizes.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/identity.h"
#include "libdistill/gradients/adamw.h"
#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/shard/flat_parameters.h"
#include "libdistill/shard/sharded_blocks.h"
#include "libdistill/tensor/convert.h"

namespace distill {
namespace {

constexpr char kByKind[] = "memory of rank ";

int64_t UntrainedBytes(const torch::nn::Module& module) {
  int64_t bytes = 0;
  for (const torch::Tensor& weight : module.parameters()) {
    if (!weight.requires_grad()) bytes += static_cast<int64_t>(weight.nbytes());
  }
  for (const torch::Tensor& buffer : module.buffers()) bytes += static_cast<int64_t>(buffer.nbytes());
  return bytes;
}

std::string Part(int64_t bytes, const std::string& kind, const std::string& what) {
  constexpr int64_t kLeast = 1 << 19;  // what is shown as 0.000 is left out
  if (bytes < kLeast) return "";
  const std::string size = absl::StrFormat("\n%9.3f GiB  ", static_cast<double>(bytes) / (int64_t{1} << 30));
  return what.empty() ? absl::StrCat(size, kind) : absl::StrFormat("%s%-22s %s", size, kind, what);
}

bool IsOutOfMemory(const absl::Status& error) {
  return absl::IsResourceExhausted(error) && absl::StrContains(error.message(), "out of") &&
         absl::StrContains(error.message(), "memory") && !absl::StrContains(error.message(), kByKind);
}

// Each by the name of its option; those that change nothing here are left out.
std::string WhatToLower(const TrainingShape& shape) {
  std::string text =
      "\nto lower it: per_device_train_batch_size, with more gradient_accumulation_steps for the same global batch "
      "(per_device_eval_batch_size in evaluations); max_length; gradient_checkpointing: true, where the model has it";
  if (torch::elementSize(shape.dtype) >= sizeof(float)) {
    absl::StrAppend(&text, "; bf16: true, which halves weights and activations");
  }
  if (shape.world_size > 1 && shape.zero_stage < 3) {
    const int next = std::max(2, shape.zero_stage + 1);
    absl::StrAppend(&text, "; zero_stage: ", next, ", which divides ",
                    next == 2 ? "the optimizer's state and gradients" : "the blocks' weights", " by ",
                    shape.world_size);
  }
  return text;
}

}  // namespace

int64_t TrainingSizes::sum() const {
  int64_t bytes = weights + untrained + masters + moments + gradients;
  for (const auto& [name, of_task] : besides) bytes += of_task;
  return bytes;
}

TrainingSizes SizesOfTraining(const torch::nn::Module& module, const std::vector<TrainedParameter>& parameters,
                              const TrainingShape& shape) {
  TrainingSizes sizes{.untrained = UntrainedBytes(module)};
  const ShardPlan plan =
      ShardedPlan(parameters, shape.zero_stage > 0 ? shape.world_size : 1, shape.bucket_bytes, shape.block_of);
  const std::vector<int64_t> elements = ElementsOf(parameters);
  int64_t all = 0, own = 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    all += elements[i];
    own += plan.OfParameter(i, 0).count;
  }
  if (shape.zero_stage > 0) all = FlatParameters::Elements(plan, shape.block_of);
  if (!shape.block_of.empty()) {
    const ShardedBlocks::Sizes blocks = ShardedBlocks::SizesOf(plan, shape.block_of);
    all += blocks.shares + blocks.places;
  }
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  const GradientSizes gradients = SizesOfGradients(elements, plan, shape.zero_stage);
  sizes.weights = all * static_cast<int64_t>(torch::elementSize(shape.dtype));
  sizes.masters = AdamW::MasterElements(own, shape.dtype) * kFloat;
  sizes.moments = AdamW::MomentElements(own) * kFloat;
  sizes.gradients = (gradients.buckets + gradients.slices) * kFloat;
  return sizes;
}

absl::Status WithTrainingSizes(const absl::Status& error, const TrainingSizes& sizes, const TrainingShape& shape,
                               const std::optional<MemoryOfFailedPass>& pass) {
  if (!IsOutOfMemory(error)) return error;
  const std::string share = shape.zero_stage > 0 ? absl::StrCat(", this rank's 1/", shape.world_size) : std::string();
  std::string text = absl::StrCat(error.message(), "\n", kByKind, GetIdentity().rank, ", by kind",
                                  pass ? absl::StrCat(", in ", pass->batch) : "", ":");
  absl::StrAppend(&text, Part(sizes.weights, "weights", NameOf(*FromTorch(shape.dtype))),
                  Part(sizes.untrained, "weights not trained", "of the same module, and its buffers"),
                  Part(sizes.masters, "masters", absl::StrCat("float32", share)),
                  Part(sizes.moments, "optimizer's moments", absl::StrCat("2 x float32", share)),
                  Part(sizes.gradients, "gradients", "float32"));
  for (const auto& [name, bytes] : sizes.besides) absl::StrAppend(&text, Part(bytes, name, ""));
  if (pass) {
    absl::StrAppend(&text, Part(pass->now_bytes - sizes.sum(), "all else in use", "batches, program, libraries"),
                    Part(pass->most_bytes - pass->now_bytes, "activations", "what passes had beside that at most"));
  }
  return absl::Status(error.code(), absl::StrCat(text, WhatToLower(shape)));
}

}  // namespace distill
