#include "libdistill/data/chat_dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_samples.h"
#include "libdistill/data/token_cache.h"
#include "libdistill/data/token_dataset.h"

namespace distill {
namespace {

absl::StatusOr<ChatDataset> LoadIntoMemory(const std::string& path, const Tokenizer& tokenizer,
                                           const ChatTemplate& chat_template, const ChatDatasetOptions& options) {
  std::vector<TokenSample> samples;
  std::vector<Conversation> conversations;
  ChatProgress progress;
  DISTILL_RETURN_IF_ERROR(ForEachChatSample(path, tokenizer, chat_template, options, progress,
                                            [&](TokenSample sample, Conversation conversation) {
                                              samples.push_back(std::move(sample));
                                              if (!options.keep_conversations) return;
                                              conversations.push_back(std::move(conversation));
                                            }));
  return ChatDataset{MakeTokenDataset(std::move(samples)), std::move(conversations),
                     progress.counts.Describe(options.max_length)};
}

}  // namespace

absl::StatusOr<ChatDataset> LoadChatDataset(const std::string& path, const Tokenizer& tokenizer,
                                            const ChatTemplate& chat_template, const ChatDatasetOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.max_length, /*least=*/2, options.num_samples));
  const bool is_tokens = IsTokenFolder(path);
  if (is_tokens && options.keep_conversations) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds tokens alone, and texts are needed here: name the rows that it was made of"));
  }
  const std::unique_ptr<TokenSource> source = ChatSource(path, tokenizer, chat_template, options);
  if (is_tokens) {
    DISTILL_ASSIGN_OR_RETURN(KeptTokens kept, LoadTokenFolder(source->options()));
    return ChatDataset{std::move(kept.tokens), {}, std::move(kept.summary)};
  }
  if (options.keep_conversations || options.cache.folder.empty()) {
    return LoadIntoMemory(path, tokenizer, chat_template, options);
  }
  DISTILL_ASSIGN_OR_RETURN(std::optional<KeptTokens> kept, LoadThroughTokenCache(*source, options.cache));
  if (!kept) return LoadIntoMemory(path, tokenizer, chat_template, options);
  return ChatDataset{std::move(kept->tokens), {}, std::move(kept->summary)};
}

}  // namespace distill
