// A folder of chat files that goes away with the test, and what the tests load from it.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/data/dataset.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/support/catch.h"

namespace distill {

class ChatFiles {
 public:
  ChatFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "distill_data_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~ChatFiles() { std::filesystem::remove_all(folder_); }
  ChatFiles(const ChatFiles&) = delete;
  ChatFiles& operator=(const ChatFiles&) = delete;

  const std::string& folder() const { return folder_; }
  std::string Write(const std::string& name, const std::string& contents) const {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }

 private:
  std::string folder_;
};

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
