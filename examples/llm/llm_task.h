// What a distillation run works on, loaded from the folders and files that its config names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/llm/options.h"
#include "libdistill/distill.h"

namespace distill {

struct LlmText {
  std::string tokenizer_folder;  // the student's, or the teacher's where the student has none
  Tokenizer tokenizer;
  ChatTemplate chat;
  ChatDataset train;
  std::optional<ChatDataset> evaluation;
};

// Tokenizers (compared where both models have one), chat template and data.
[[nodiscard]] absl::StatusOr<LlmText> LoadText(const LlmOptions& options);

// This rank's part of the training data, or of the held-out data (in its own order).
[[nodiscard]] absl::StatusOr<TokenBatches> ShardTraining(const LlmOptions& options, const LlmText& text,
                                                         const World& world);
[[nodiscard]] absl::StatusOr<TokenBatches> ShardEvaluation(const LlmOptions& options, const LlmText& text,
                                                           const World& world);

// InvalidArgument: the model of `folder` can be a teacher, but cannot be trained: it is quantised, or a mixture of
// experts.
[[nodiscard]] absl::Status CheckStudent(const std::string& folder, const DecoderConfig& config);

// As use_peft and layers_to_unfreeze say, if they are given: adapters are added, and what is not to be trained is
// frozen. Errors begin with the option's name.
[[nodiscard]] absl::Status ChoosePart(const LlmOptions& options, Decoder& student);

struct LlmModels {
  std::shared_ptr<Decoder> teacher;  // null: training on labels alone
  std::shared_ptr<Decoder> student;  // float32
  bool student_has_weights = false;  // in its folder
};

// A student folder without weights gives random ones, drawn with the config's seed. A model that is to be sharded
// (zero_stage 3, shard_teacher) comes without its blocks. What is not to be trained is
// frozen (ChoosePart).
[[nodiscard]] absl::StatusOr<LlmModels> LoadModels(const LlmOptions& options, const RunContext& run);

}  // namespace distill
