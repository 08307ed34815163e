// What the benchmark trains: each recipe as one of the programs in bench/peers runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libdistill/distill.h"

namespace distill {

struct AttentionSizes {
  int64_t layers = 0, heads = 0, head_size = 0;
  bool is_causal = false;
};

struct BenchRecipe {
  std::shared_ptr<LanguageModel> teacher, student;
  std::function<torch::Tensor(const TokenBatch&)> loss;  // the sum that is differentiated, over loss_count tokens
  std::function<int64_t(const TokenBatch&)> loss_count;
  bool losses_are_final = false;  // Task::losses_are_final
  double learning_rate = 0;       // the peer's
  // Model FLOPs a token (student 6, teacher 2 a parameter that is multiplied, heads included, and attention's
  // products).
  double flops_per_token = 0;
  AttentionSizes teacher_attention, student_attention;
  int64_t rows = 0, length = 0;
  // One step's batch of this rank: random tokens, the same for the same rank and step.
  std::function<TokenBatch(int rank, int64_t step)> random_batch;
  // The same out of a peer's int64 [rows, length] each; labels only where the recipe does not make them out of the ids.
  std::function<TokenBatch(std::vector<int64_t> input_ids, std::vector<int64_t> labels)> batch_of;
};

// "llm" (Qwen2's traits), "llm_qwen3", "llm_gemma2" or "distilbert"; "llm_7b": a Qwen2 of 1.5 billion parameters from
// one of 7, for GPUs. With a folder: its teacher/ and student/, as a peer's --save wrote them; without: random weights.
// The teacher's are in `dtype`, the student's in float32, both on `device`.
[[nodiscard]] absl::StatusOr<BenchRecipe> MakeRecipe(const std::string& name, const std::string& folder,
                                                     torch::Dtype dtype, torch::Device device = torch::kCPU);

// Seconds that the recipe's matrix products take by themselves for one step of one rank, and one pass over both models'
// logits: products of every weight of both models, forward and backward, in `dtype`, heads in the loss's chunks, and
// attention's. Each shape is timed once.
double ProductSeconds(const BenchRecipe& recipe, torch::Dtype dtype);

}  // namespace distill
