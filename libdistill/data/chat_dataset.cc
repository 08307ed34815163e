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
  if (IsTokenFolder(path)) return LoadTokenFolder(path, tokenizer, chat_template, options);
  if (options.keep_conversations || options.cache.folder.empty()) {
    return LoadIntoMemory(path, tokenizer, chat_template, options);
  }
  DISTILL_ASSIGN_OR_RETURN(std::optional<ChatDataset> cached,
                           LoadThroughTokenCache(path, tokenizer, chat_template, options));
  return cached ? *std::move(cached) : LoadIntoMemory(path, tokenizer, chat_template, options);
}

}  // namespace distill
