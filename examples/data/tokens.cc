#include "examples/data/tokens.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "examples/data/lengths.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_dataset.h"
#include "libdistill/data/chat_samples.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/data/token_builder.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/data/token_folder.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

struct Encoders {
  Tokenizer tokenizer;
  ChatTemplate chat;
};

absl::StatusOr<Encoders> LoadEncoders(const DataOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckHasTokenizer(options));
  DISTILL_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(options.tokenizer));
  DISTILL_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::Create(options.chat_template, tokenizer));
  return Encoders{std::move(tokenizer), std::move(chat)};
}

ChatDatasetOptions HowToLoad(const DataOptions& options) {
  return {
      .split = options.split,
      .num_samples = options.num_samples,
      .max_length = options.max_length,
      .train_on = options.train_on,
      .rows = options.reading,
      .num_threads = options.num_threads > 0 ? options.num_threads : std::max(1U, std::thread::hardware_concurrency()),
      .keep_conversations = false};
}

// Reads all samples; their fingerprint.
absl::StatusOr<std::string> ReadAllSamples(const Dataset& tokens) {
  TokenFingerprint fingerprint;
  for (int64_t i = 0; i < tokens.size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(const Sample sample, tokens.Read(i));
    DISTILL_ASSIGN_OR_RETURN(const auto ids, sample.Get<int32_t>("ids"));
    DISTILL_ASSIGN_OR_RETURN(const auto is_target, sample.Get<uint8_t>("is_target"));
    fingerprint.Add(ids, is_target);
  }
  return fingerprint.Text();
}

}  // namespace

absl::Status CheckHasTokenizer(const DataOptions& options) {
  if (!options.tokenizer.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--tokenizer is missing: the folder of the model whose tokens are wanted");
}

absl::Status Tokenize(const std::string& path, const std::string& folder, const DataOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const Encoders encoders, LoadEncoders(options));
  const ChatDatasetOptions how = HowToLoad(options);
  const std::unique_ptr<TokenSource> source = ChatSource(path, encoders.tokenizer, encoders.chat, how);
  DISTILL_ASSIGN_OR_RETURN(const std::optional<std::string> made_of, MadeOf(source->options()));
  if (!IsRemote(folder)) DISTILL_RETURN_IF_ERROR(MakeFolder(folder));
  DISTILL_ASSIGN_OR_RETURN(const TokenIndex index,
                           BuildTokenFolder(folder, *source,
                                            made_of.value_or(absl::StrCat("rows of a pipe, read once, at ",
                                                                          absl::FormatTime(absl::Now()), "\n"))));
  std::printf("%s: %s\n%s: %lld samples of %lld tokens in %lld shards\n", path.c_str(), index.summary.c_str(),
              folder.c_str(), static_cast<long long>(index.samples), static_cast<long long>(index.tokens),
              static_cast<long long>(index.shards));
  return absl::OkStatus();
}

absl::Status CountTokens(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const TokenIndex index, ReadTokenIndex(folder));
  std::printf("%s: %lld samples of %lld tokens in %lld shards\n", folder.c_str(), static_cast<long long>(index.samples),
              static_cast<long long>(index.tokens), static_cast<long long>(index.shards));
  return absl::OkStatus();
}

absl::Status PrintTokens(const std::string& path, const DataOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const Encoders encoders, LoadEncoders(options));
  ChatDatasetOptions how = HowToLoad(options);
  how.num_samples = options.rows;
  DISTILL_ASSIGN_OR_RETURN(const ChatDataset data, LoadChatDataset(path, encoders.tokenizer, encoders.chat, how));
  DISTILL_ASSIGN_OR_RETURN(
      TokenBatches batches,
      TokenBatches::Create(data.tokens, 0, 1, {.shuffle = false, .max_length = options.max_length}));
  for (int64_t i = 0; i < data.tokens->size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<TokenBatch> step, batches.NextStep());
    for (const TokenBatch& batch : step) std::printf("%s", DescribeBatch(batch, encoders.tokenizer).c_str());
  }
  return absl::OkStatus();
}

absl::Status PrintStats(const std::string& path, const DataOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const Encoders encoders, LoadEncoders(options));
  DISTILL_ASSIGN_OR_RETURN(const ChatDataset data,
                           LoadChatDataset(path, encoders.tokenizer, encoders.chat, HowToLoad(options)));
  std::printf("%s: %s\n", path.c_str(), data.summary.c_str());
  DISTILL_ASSIGN_OR_RETURN(const Lengths lengths, LengthsOf(*data.tokens));
  const Lengths sorted = Sorted(lengths);
  std::printf("%s", DescribeLengths(sorted, options.max_length).c_str());
  DISTILL_RETURN_IF_ERROR(PrintPadding(lengths, options.batch_rows, options.max_length, /*with_packing=*/true));
  return options.picture.empty() ? absl::OkStatus() : DrawLengths(sorted, path, options.picture);
}

absl::Status VerifyTokens(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const TokenIndex index, ReadTokenIndex(folder));
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Dataset> tokens, OpenTokenFolder(folder, index));
  DISTILL_ASSIGN_OR_RETURN(const std::string found, ReadAllSamples(*tokens));
  if (found != index.fingerprint) {
    return absl::DataLossError(absl::StrCat(folder, ": its samples are not those of its index: make it again"));
  }
  std::printf("%s: %lld samples of %lld tokens in %lld shards, all as they were written\n", folder.c_str(),
              static_cast<long long>(index.samples), static_cast<long long>(index.tokens),
              static_cast<long long>(index.shards));
  return absl::OkStatus();
}

}  // namespace distill
