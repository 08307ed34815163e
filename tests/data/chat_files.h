// A folder of chat files that goes away with the test, and what the tests load from it.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/data/chat_dataset.h"
#include "libdistill/data/token_dataset.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {

// A row in which `question` is answered with `answer`.
inline std::string ChatRow(const std::string& question, const std::string& answer) {
  return absl::StrCat(R"({"messages":[{"role":"user","content":")", question, R"("},{"role":"assistant","content":")",
                      answer, "\"}]}\n");
}

// A sample of a token data set.
inline TokenSample TokensOf(const Dataset& dataset, int64_t index) {
  const auto sample = dataset.Read(index);
  REQUIRE(sample.ok());
  const auto ids = sample->Get<int32_t>("ids");
  const auto is_target = sample->Get<uint8_t>("is_target");
  REQUIRE((ids.ok() && is_target.ok()));
  return {{ids->begin(), ids->end()}, {is_target->begin(), is_target->end()}};
}

inline absl::StatusOr<ChatDataset> LoadChat(const std::string& path, const ChatDatasetOptions& options = {},
                                            const std::string& chat_template = "chatml") {
  const Tokenizer tokenizer = ByteTokenizer();
  const auto chat = ChatTemplate::Create(chat_template, tokenizer);
  REQUIRE(chat.ok());
  return LoadChatDataset(path, tokenizer, *chat, options);
}

}  // namespace distill
