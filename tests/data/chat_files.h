// A folder of chat files that goes away with the test, and what the tests load from it.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/data/dataset.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {

// A row in which `question` is answered with `answer`.
inline std::string ChatRow(const std::string& question, const std::string& answer) {
  return absl::StrCat(R"({"messages":[{"role":"user","content":")", question, R"("},{"role":"assistant","content":")",
                      answer, "\"}]}\n");
}

inline absl::StatusOr<ChatDataset> LoadChat(const std::string& path, const ChatDatasetOptions& options = {},
                                            const std::string& chat_template = "chatml") {
  const Tokenizer tokenizer = ByteTokenizer();
  const auto chat = ChatTemplate::Create(chat_template, tokenizer);
  REQUIRE(chat.ok());
  return LoadChatDataset(path, tokenizer, *chat, options);
}

}  // namespace distill
