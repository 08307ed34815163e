// What tests of partial training train: a tiny decoder of which a part is chosen, and sentences that are the same on
// any number of ranks.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/adapters.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/task/logit_distillation.h"
#include "libdistill/task/unfreeze.h"
#include "libdistill/world/world.h"
#include "tests/support/counted_task.h"

namespace distill::testing {

constexpr int64_t kRows = 4, kLength = 7, kWords = 61;

inline DecoderConfig Shape(bool is_tied, int64_t hidden = 24) {
  DecoderConfig config;
  config.model_type = "qwen2";
  config.vocab_size = kWords;
  config.hidden_size = hidden;
  config.intermediate_size = 40;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.initializer_range = 0.2;
  config.ropes[0].theta = 1000;
  config.tie_word_embeddings = is_tied;
  config.query_key_value_bias = true;
  return config;
}

// `patterns`: of the parameters that are trained, or the targets of adapters behind "lora".
inline absl::Status ChoosePart(const std::vector<std::string>& patterns, Decoder& model) {
  if (patterns[0] == "lora") {
    DISTILL_RETURN_IF_ERROR(AddAdapters({.rank = 3, .dropout = 0, .targets = patterns[1]}, model));
    // That of A is zero while B is.
    const torch::NoGradGuard no_grad;
    for (const auto& item : model.named_parameters()) {
      if (absl::StrContains(item.key(), "lora_B")) item.value().fill_(0.02);
    }
    return absl::OkStatus();
  }
  std::vector<YamlItem> items;
  for (const std::string& pattern : patterns) items.push_back({pattern, "test:1"});
  return UnfreezeOnly(items, model);
}

inline int32_t Id(int64_t step, int64_t row, int64_t token) {
  return static_cast<int32_t>((7 * step + 13 * row + 5 * token + row * token) % kWords);
}

inline TokenBatch BatchOf(int64_t step, int64_t row) {
  TokenBatch batch;
  batch.rows = 1;
  batch.length = kLength;
  batch.document_starts = {{0, kLength}};
  for (int64_t token = 0; token < kLength; ++token) {
    batch.input_ids.push_back(Id(step, row, token));
    batch.labels.push_back(token < 2 ? -100 : Id(step, row, token + 1));
  }
  return batch;
}

// The same rows a step, whatever the number of ranks.
class Sentences : public CountedTask {
 public:
  Sentences(std::shared_ptr<LogitDistillation> objective, const World& world)
      : objective_(std::move(objective)), world_(world) {}
  std::vector<std::string> Reported() const override { return objective_->Reported(); }
  bool losses_are_final() const override { return true; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    std::vector<MicroStep> steps;
    const int64_t step = made_++;
    for (int64_t row = world_.rank; row < kRows; row += world_.world_size) {
      const TokenBatch batch = BatchOf(step, row);
      steps.push_back({.counts = objective_->Counts(batch),
                       .num_tokens = batch.num_tokens(),
                       .num_samples = 1,
                       .forward = [this, batch](const PassScale& scale) { return objective_->Forward(batch, scale); }});
    }
    return steps;
  }

 private:
  const std::shared_ptr<LogitDistillation> objective_;
  const World& world_;
};

}  // namespace distill::testing
