#include "libdistill/data/chat_samples.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_encoder.h"
#include "libdistill/store/content_hash.h"

namespace distill {
namespace {

// Cuts it; false where nothing to train on would be left.
bool Cut(TokenSample& sample, size_t max_length) {
  sample.ids.resize(max_length);
  sample.is_target.resize(max_length);
  return HasTarget(sample);
}

absl::Status CheckUse(const std::string& path, const ChatCounts& counts, int64_t max_length) {
  if (counts.rows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the data set is empty; write one conversation a line, or name another file"));
  }
  if (counts.used > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": nothing is left to train on: ", counts.Describe(max_length),
                                                 "; raise max_length, which is ", max_length));
}

TokenRecipe RecipeOf(const Tokenizer& tokenizer, const ChatTemplate& chat_template, const ChatDatasetOptions& options) {
  ContentHash text;
  text.Add(chat_template.text());
  return {.tokenizer = tokenizer.fingerprint(),
          .chat_template = text.Hex(),
          .train_on = options.train_on == TrainOn::kAll ? "all" : "last",
          .max_length = options.max_length};
}

class ChatTokens : public TokenSource {
 public:
  ChatTokens(const std::string& path, const Tokenizer& tokenizer, const ChatTemplate& chat_template,
             const ChatDatasetOptions& options)
      : TokenSource({.path = path,
                     .split = options.split,
                     .rows = options.rows,
                     .num_rows = options.num_samples,
                     .recipe = RecipeOf(tokenizer, chat_template, options)}),
        tokenizer_(tokenizer),
        chat_template_(chat_template),
        options_(options) {}

  absl::Status ForEach(absl::FunctionRef<void(TokenSample sample)> on_sample,
                       const std::function<absl::Status()>& on_chunk) override {
    return ForEachChatSample(
        options().path, tokenizer_, chat_template_, options_, progress_,
        [&](TokenSample sample, const Conversation&) { on_sample(std::move(sample)); }, on_chunk);
  }
  std::string Progress() const override { return ToJson(progress_); }
  absl::Status Restore(absl::string_view progress) override {
    DISTILL_ASSIGN_OR_RETURN(progress_, ChatProgressOf(progress));
    return absl::OkStatus();
  }
  const RowsRead& rows_read() const override { return progress_.rows; }
  std::string Summary() const override { return progress_.counts.Describe(options_.max_length); }

 private:
  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;
  const ChatDatasetOptions options_;
  ChatProgress progress_;
};

}  // namespace

std::unique_ptr<TokenSource> ChatSource(const std::string& path, const Tokenizer& tokenizer,
                                        const ChatTemplate& chat_template, const ChatDatasetOptions& options) {
  return std::make_unique<ChatTokens>(path, tokenizer, chat_template, options);
}

absl::Status ForEachChatSample(const std::string& path, const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                               const ChatDatasetOptions& options, ChatProgress& progress,
                               absl::FunctionRef<void(TokenSample sample, Conversation conversation)> on_sample,
                               const std::function<absl::Status()>& on_chunk) {
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.max_length, /*least=*/2, options.num_samples));
  const ChatEncoder encoder(tokenizer, chat_template, options.train_on);
  const auto max_length = static_cast<size_t>(options.max_length);
  ChatCounts& counts = progress.counts;
  const auto encode = [&](const JsonValue& row) -> absl::StatusOr<MadeOfRow> {
    DISTILL_ASSIGN_OR_RETURN(EncodedChatRow encoded, encoder.Encode(row));
    return std::make_shared<EncodedChatRow>(std::move(encoded));
  };
  const auto take = [&](const MadeOfRow& made, const std::string& place) -> absl::StatusOr<bool> {
    auto& row = *static_cast<EncodedChatRow*>(made.get());
    ++counts.rows;
    counts.unread.merge(row.unread);
    const bool is_cut = row.sample.ids.size() > max_length;
    if (is_cut && !Cut(row.sample, max_length)) {
      counts.cut_before_answer.Add(place);
      return true;
    }
    counts.cut += is_cut;
    counts.notes.Add(row.note, place);
    ++counts.used;
    on_sample(std::move(row.sample), std::move(row.conversation));
    return options.num_samples == 0 || counts.used < options.num_samples;
  };
  const ResumeRows resume = {.from = progress.rows, .on_chunk = [&](const RowsRead& so_far) {
                               progress.rows = so_far;
                               return on_chunk ? on_chunk() : absl::OkStatus();
                             }};
  DISTILL_RETURN_IF_ERROR(
      ForEachEncodedRow(path, options.split, options.rows, options.num_threads, encode, take, resume));
  return CheckUse(path, counts, options.max_length);
}

}  // namespace distill
