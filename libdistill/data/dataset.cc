#include "libdistill/data/dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_rows.h"
#include "libdistill/store/files.h"
#include "libdistill/store/jsonl.h"

namespace distill {
namespace {

class MemoryDataset : public TokenDataset {
 public:
  explicit MemoryDataset(std::vector<TokenSample> samples) : samples_(std::move(samples)) {}
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  const TokenSample& sample(int64_t index) const override { return samples_[index]; }

 private:
  std::vector<TokenSample> samples_;
};

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path, const std::string& split) {
  DISTILL_RETURN_IF_ERROR(RequireLocalPath(path));
  if (!FolderExists(path)) return std::vector<std::string>{path};
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> names, ListFiles(path, split, ".jsonl"));
  if (names.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the folder has no ", split, "*.jsonl"));
  }
  for (std::string& name : names) name = JoinPath(path, name);
  return names;
}

// Rows that are left out for one reason.
struct LeftOut {
  const char* reason;
  int64_t count = 0;
  std::string first;

  void Add(const std::string& place) {
    if (count++ == 0) first = place;
  }
  std::string Text() const { return count == 0 ? "" : absl::StrCat(", ", reason, " ", count, " (first: ", first, ")"); }
};

class ChatLoader {
 public:
  ChatLoader(const Tokenizer& tokenizer, const ChatTemplate& chat_template, const ChatDatasetOptions& options)
      : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {}

  absl::Status ReadFile(const std::string& path) {
    DISTILL_ASSIGN_OR_RETURN(JsonlReader reader, JsonlReader::Open(path));
    while (!Full()) {
      DISTILL_ASSIGN_OR_RETURN(const std::optional<JsonlRow> row, reader.Next());
      if (!row) break;
      const std::string place = absl::StrCat(path, ":", row->line);
      if (const absl::Status status = AddRow(row->value, place); !status.ok()) return Annotate(status, place);
    }
    return absl::OkStatus();
  }
  bool Full() const {
    return options_.num_samples > 0 && static_cast<int64_t>(samples_.size()) >= options_.num_samples;
  }
  absl::StatusOr<ChatDataset> Finish(const std::string& path);

 private:
  absl::Status AddRow(const JsonValue& row, const std::string& place);

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;
  const ChatDatasetOptions& options_;
  std::vector<TokenSample> samples_;
  std::vector<std::vector<ChatMessage>> conversations_;
  int64_t rows_ = 0, cut_ = 0;
  LeftOut without_answer_{"without an answer", 0, ""};
  LeftOut answer_cut_off_{"whose answers lie beyond max_length", 0, ""};
};

absl::Status ChatLoader::AddRow(const JsonValue& row, const std::string& place) {
  ++rows_;
  DISTILL_ASSIGN_OR_RETURN(std::vector<ChatMessage> messages, ParseChatRow(row));
  if (!HasAnswer(messages)) {
    without_answer_.Add(place);
    return absl::OkStatus();
  }
  DISTILL_ASSIGN_OR_RETURN(const ChatTemplate::Rendered rendered, chat_template_.RenderForTraining(messages));
  EncodedChat encoded = EncodeChat(tokenizer_, rendered);
  const size_t max_length = static_cast<size_t>(options_.max_length);
  if (encoded.ids.size() > max_length) {
    ++cut_;
    encoded.ids.resize(max_length);
    encoded.is_assistant.resize(max_length);
  }
  // The first token of a sequence is never predicted.
  if (encoded.ids.empty() || std::count(encoded.is_assistant.begin() + 1, encoded.is_assistant.end(), 1) == 0) {
    answer_cut_off_.Add(place);
    return absl::OkStatus();
  }
  samples_.push_back({std::move(encoded.ids), std::move(encoded.is_assistant)});
  conversations_.push_back(std::move(messages));
  return absl::OkStatus();
}

absl::StatusOr<ChatDataset> ChatLoader::Finish(const std::string& path) {
  std::string summary =
      absl::StrCat(path, ": rows ", rows_, ", used ", samples_.size(), without_answer_.Text(), answer_cut_off_.Text());
  if (cut_ > 0) absl::StrAppend(&summary, ", cut at max_length ", options_.max_length, ": ", cut_);
  if (samples_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("nothing is left to train on: ", summary));
  }
  return ChatDataset{MakeTokenDataset(std::move(samples_)), std::move(conversations_), std::move(summary)};
}

}  // namespace

std::shared_ptr<TokenDataset> MakeTokenDataset(std::vector<TokenSample> samples) {
  return std::make_shared<MemoryDataset>(std::move(samples));
}

absl::StatusOr<ChatDataset> LoadChatDataset(const std::string& path, const Tokenizer& tokenizer,
                                            const ChatTemplate& chat_template, const ChatDatasetOptions& options) {
  if (options.max_length < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_length is ", options.max_length, "; it needs to be at least 2"));
  }
  if (options.num_samples < 0) {
    return absl::InvalidArgumentError(absl::StrCat("num_samples is ", options.num_samples, "; it cannot be negative"));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(path, options.split));
  ChatLoader loader(tokenizer, chat_template, options);
  for (const std::string& file : files) {
    if (loader.Full()) break;
    DISTILL_RETURN_IF_ERROR(loader.ReadFile(file));
  }
  return loader.Finish(path);
}

}  // namespace distill
