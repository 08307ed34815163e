// The samples of a chat data set, one after the other: where they are kept is the caller's choice.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/data/chat_counts.h"
#include "libdistill/data/chat_dataset.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/data/token_source.h"

namespace distill {

// Hands over what is used of each row, cut at max_length, and counts in `progress`, behind which it begins. `on_chunk`
// is called where the data set could be read on from `progress`. Errors are those of LoadChatDataset, and of
// `on_chunk`.
[[nodiscard]] absl::Status ForEachChatSample(
    const std::string& path, const Tokenizer& tokenizer, const ChatTemplate& chat_template,
    const ChatDatasetOptions& options, ChatProgress& progress,
    absl::FunctionRef<void(TokenSample sample, Conversation conversation)> on_sample,
    const std::function<absl::Status()>& on_chunk = {});

// The same for the token cache. Tokenizer and template must outlive it.
std::unique_ptr<TokenSource> ChatSource(const std::string& path, const Tokenizer& tokenizer,
                                        const ChatTemplate& chat_template, const ChatDatasetOptions& options);

}  // namespace distill
