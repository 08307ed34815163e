// Held-out data as a model was trained to read them: by the tokenizer and the chat template of a folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/chat_dataset.h"

namespace distill {

// What the last answer of each conversation should be, and the ids of all that comes before it. None where the data are
// plain texts.
struct Questions {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> answers;
  int64_t max_new_tokens = 0;  // of the longest answer, with the end of its turn
};

struct HeldOut {
  std::string chat_template;
  Tokenizer tokenizer;
  ChatDataset data;
  Questions questions;
  std::vector<int32_t> ends;  // of an answer, by the tokenizer's folder
};

// `folder`: whose tokenizer it is. InvalidArgument besides what LoadChatDataset gives: there are questions, and nothing
// says where an answer ends.
[[nodiscard]] absl::StatusOr<HeldOut> LoadHeldOut(const std::string& dataset, const std::string& folder,
                                                  const ChatTemplate& chat, const ChatDatasetOptions& options);

}  // namespace distill
