// Chat files as token samples.
//
//   DISTILL_ASSIGN_OR_RETURN(auto dataset, LoadChatDataset("chat.jsonl", tokenizer, chat_template, {}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/row_options.h"
#include "libdistill/data/token_cache_options.h"
#include "libdistill/text/chat_template.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct ChatDatasetOptions {
  std::string split = "";     // of a folder: "train" takes train*.jsonl; empty takes every *.jsonl
  int64_t num_samples = 0;    // 0: all; otherwise the first ones
  int64_t max_length = 4096;  // longer samples are cut at the end; one that is left without targets is dropped, counted
  TrainOn train_on = TrainOn::kAll;
  RowOptions rows = {};     // what to do about bad ones
  int64_t num_threads = 1;  // that render and tokenize; what comes out is the same for any number
  bool keep_conversations = true;
  TokenCache cache = {};  // of the tokens; it is not used with keep_conversations
};

struct ChatDataset {
  std::shared_ptr<Dataset> tokens;  // token samples (data/token_dataset.h), in memory or in mapped files
  std::vector<Conversation>
      conversations;    // the same samples as text, for generation on held-out data; empty without keep_conversations
  std::string summary;  // "rows 20000, used 19998, cut before the answer 2 (first: train.jsonl:17)": logged by rank 0
};

// `path`: files of rows (row_files.h), or a folder of tokens (token_folder.h). Rows are `messages` (role, content) or
// `conversations` (from and value, or role and content), with what templates read besides: calls of tools, reasoning,
// tools. An answer with `weight` 0 is context alone. `summary` names the fields that nothing reads, and counts the rows
// whose answers are not all trained. Bad rows: broken JSON, bad UTF-8, a missing field, an unknown role; no assistant's
// answer; messages that the template or the tokenizer refuses, or of which the template renders no answer.
// InvalidArgument: bad rows that are not left out (how many, the first ones with file, line and reason); nothing left
// to train on; tokens that were made otherwise. NotFound: no such file.
[[nodiscard]] absl::StatusOr<ChatDataset> LoadChatDataset(const std::string& path, const Tokenizer& tokenizer,
                                                          const ChatTemplate& chat_template,
                                                          const ChatDatasetOptions& options);

}  // namespace distill
