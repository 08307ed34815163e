// From a row of chat data to tokens: what takes time when a data set is read.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/data/answer_notes.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/store/json_value.h"
#include "libdistill/text/chat_template.h"
#include "libdistill/text/conversation.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// What a row gives.
struct EncodedChatRow {
  TokenSample sample = {};  // not yet cut
  Conversation conversation = {};
  AnswerNote note = {};
  std::set<std::string> unread = {};
};

// Any thread may use it. Tokenizer and template must outlive it.
class ChatEncoder {
 public:
  ChatEncoder(const Tokenizer& tokenizer, const ChatTemplate& chat_template, TrainOn train_on)
      : tokenizer_(tokenizer), chat_template_(chat_template), train_on_(train_on) {}

  // InvalidArgument: the row is bad, as LoadChatDataset (chat_dataset.h) says.
  [[nodiscard]] absl::StatusOr<EncodedChatRow> Encode(const JsonValue& row) const;

 private:
  [[nodiscard]] absl::Status EncodeText(const JsonValue& row, EncodedChatRow& encoded) const;
  [[nodiscard]] absl::Status EncodeConversation(const JsonValue& row, EncodedChatRow& encoded) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;
  const TrainOn train_on_;
};

}  // namespace distill
