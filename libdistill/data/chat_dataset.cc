#include "libdistill/data/chat_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_rows.h"
#include "libdistill/data/jsonl_rows.h"
#include "libdistill/data/token_dataset.h"

namespace distill {
namespace {

// A first token is never predicted, so it is no target of any loss.
bool HasTarget(const TokenSample& sample) {
  return sample.is_target.size() > 1 &&
         std::any_of(sample.is_target.begin() + 1, sample.is_target.end(), [](uint8_t target) { return target != 0; });
}

class ChatLoader {
 public:
  ChatLoader(const Tokenizer& tokenizer, const ChatTemplate& chat_template, const ChatDatasetOptions& options)
      : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {}

  absl::Status Read(const std::string& path) {
    return ForEachRow(path, options_.split,
                      [this](const JsonValue& row, const std::string& place) -> absl::StatusOr<bool> {
                        ++rows_;
                        DISTILL_RETURN_IF_ERROR(Add(row, place));
                        return !full();
                      });
  }

  absl::StatusOr<ChatDataset> Finish(const std::string& path) {
    if (rows_ == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the data set is empty; write one conversation a line, or name another file"));
    }
    if (without_answer_.count > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": rows ", rows_, without_answer_.Describe("without an answer"),
                       "; each row needs an assistant's message that says something: complete these or remove them"));
    }
    const std::string summary =
        absl::StrCat("rows ", rows_, ", used ", samples_.size(), cut_before_answer_.Describe("cut before the answer"),
                     cut_ == 0 ? "" : absl::StrCat(", cut to max_length ", options_.max_length, " ", cut_));
    if (samples_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": nothing is left to train on: ", summary,
                                                     "; raise max_length, which is ", options_.max_length));
    }
    return ChatDataset{MakeTokenDataset(std::move(samples_)), std::move(conversations_), summary};
  }

 private:
  bool full() const {
    return options_.num_samples > 0 && static_cast<int64_t>(samples_.size()) == options_.num_samples;
  }

  absl::Status Add(const JsonValue& row, const std::string& place) {
    DISTILL_ASSIGN_OR_RETURN(std::vector<ChatMessage> messages, ParseChatRow(row));
    if (!HasAnswer(messages)) {
      without_answer_.Add(place);
      return absl::OkStatus();
    }
    DISTILL_ASSIGN_OR_RETURN(const ChatTemplate::Rendered rendered, chat_template_.RenderForTraining(messages));
    DISTILL_ASSIGN_OR_RETURN(EncodedChat encoded, EncodeChat(tokenizer_, rendered));
    TokenSample sample{std::move(encoded.ids), std::move(encoded.is_assistant)};
    if (!HasTarget(sample)) {
      return absl::InvalidArgumentError(
          "the chat template renders none of the answer; set chat_template to one that does: chatml, llama3 or a Jinja "
          "file");
    }
    const size_t max_length = static_cast<size_t>(options_.max_length);
    const bool is_cut = sample.ids.size() > max_length;
    if (is_cut) {
      sample.ids.resize(max_length);
      sample.is_target.resize(max_length);
      if (!HasTarget(sample)) {
        cut_before_answer_.Add(place);
        return absl::OkStatus();
      }
    }
    cut_ += is_cut;
    samples_.push_back(std::move(sample));
    conversations_.push_back(std::move(messages));
    return absl::OkStatus();
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;
  const ChatDatasetOptions options_;
  std::vector<TokenSample> samples_;
  std::vector<std::vector<ChatMessage>> conversations_;
  int64_t rows_ = 0;
  int64_t cut_ = 0;
  CountedRows without_answer_;
  CountedRows cut_before_answer_;
};

}  // namespace

absl::StatusOr<ChatDataset> LoadChatDataset(const std::string& path, const Tokenizer& tokenizer,
                                            const ChatTemplate& chat_template, const ChatDatasetOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.max_length, /*least=*/2, options.num_samples));
  ChatLoader loader(tokenizer, chat_template, options);
  DISTILL_RETURN_IF_ERROR(loader.Read(path));
  return loader.Finish(path);
}

}  // namespace distill
