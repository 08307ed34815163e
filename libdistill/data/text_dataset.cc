#include "libdistill/data/text_dataset.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/row_dataset.h"
#include "libdistill/data/rows.h"
#include "libdistill/data/token_dataset.h"

namespace distill {
namespace {

constexpr size_t kLeastTokens = 2;  // the first one is never predicted

// The tokens of a row, with the token that ends a text.
absl::StatusOr<std::vector<int32_t>> IdsOf(const JsonValue& row, const Tokenizer& tokenizer,
                                           const TextDatasetOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::string text, TextOf(row, options.column));
  DISTILL_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode(text));
  if (tokenizer.eos_id() && !ids.empty()) ids.push_back(*tokenizer.eos_id());
  return ids;
}

class TextLoader {
 public:
  TextLoader(const Tokenizer& tokenizer, const TextDatasetOptions& options)
      : tokenizer_(tokenizer), options_(options), max_length_(static_cast<size_t>(options.max_length)) {}

  absl::StatusOr<bool> Add(const JsonValue& row, const std::string& place) {
    DISTILL_ASSIGN_OR_RETURN(std::vector<int32_t> ids, IdsOf(row, tokenizer_, options_));
    ++rows_;
    if (ids.size() < kLeastTokens) {
      too_short_.Add(place);
    } else if (options_.form == TextForm::kCut) {
      cut_ += ids.size() > max_length_;
      ids.resize(std::min(ids.size(), max_length_));
      Keep(std::move(ids));
    } else {
      rest_.insert(rest_.end(), ids.begin(), ids.end());
      CutBlocks();
    }
    return !full();
  }

  absl::StatusOr<TextDataset> Finish(const std::string& path) {
    if (rest_.size() >= kLeastTokens && !full()) Keep(std::move(rest_));
    const std::string summary =
        absl::StrCat("rows ", rows_, ", used ", samples_.size(), too_short_.Describe("too short"),
                     cut_ == 0 ? "" : absl::StrCat(", cut to max_length ", options_.max_length, " ", cut_));
    if (!samples_.empty()) return TextDataset{MakeTokenDataset(std::move(samples_)), summary};
    return absl::InvalidArgumentError(absl::StrCat(path, ": nothing is left to train on: ", summary,
                                                   "; write a text a line, {\"", options_.column, "\": \"...\"}"));
  }

 private:
  bool full() const {
    return options_.num_samples > 0 && static_cast<int64_t>(samples_.size()) >= options_.num_samples;
  }

  void Keep(std::vector<int32_t> ids) {
    std::vector<uint8_t> is_target(ids.size(), 1);
    samples_.push_back({std::move(ids), std::move(is_target)});
  }

  void CutBlocks() {
    size_t begin = 0;
    for (; begin + max_length_ <= rest_.size() && !full(); begin += max_length_) {
      Keep({rest_.begin() + begin, rest_.begin() + begin + max_length_});
    }
    rest_.erase(rest_.begin(), rest_.begin() + begin);
  }

  const Tokenizer& tokenizer_;
  const TextDatasetOptions options_;
  const size_t max_length_;
  std::vector<TokenSample> samples_;
  std::vector<int32_t> rest_;  // of blocks: tokens that fill none yet
  int64_t rows_ = 0;           // without bad ones
  int64_t cut_ = 0;
  CountedRows too_short_;
};

}  // namespace

absl::StatusOr<TextDataset> LoadTextDataset(const std::string& path, const Tokenizer& tokenizer,
                                            const TextDatasetOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.max_length, kLeastTokens, options.num_samples));
  if (options.form == TextForm::kBlocks && !tokenizer.eos_id()) {
    return absl::InvalidArgumentError(
        "blocks of text need an eos_token between texts, and the tokenizer names none: add it to "
        "tokenizer_config.json, or make each text a sample (TextForm::kCut)");
  }
  TextLoader loader(tokenizer, options);
  const auto add = [&](const JsonValue& row, const std::string& place) { return loader.Add(row, place); };
  DISTILL_RETURN_IF_ERROR(ForEachRow(path, options.split, options.rows, add));
  return loader.Finish(path);
}

absl::StatusOr<std::shared_ptr<Dataset>> OpenTextDataset(const std::string& path, Tokenizer tokenizer,
                                                         const TextDatasetOptions& options,
                                                         const std::string& index_folder) {
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.max_length, kLeastTokens, options.num_samples));
  DISTILL_RETURN_IF_ERROR(CheckCanBeReadByRows(options.rows));
  if (options.form == TextForm::kBlocks) {
    return absl::InvalidArgumentError(
        "blocks of text begin where the texts before them end, so they cannot be read by themselves: take "
        "TextForm::kCut, or LoadTextDataset");
  }
  const auto make = [tokenizer = std::make_shared<const Tokenizer>(std::move(tokenizer)),
                     options](const JsonValue& row) -> absl::StatusOr<Sample> {
    DISTILL_ASSIGN_OR_RETURN(std::vector<int32_t> ids, IdsOf(row, *tokenizer, options));
    if (ids.empty()) return absl::InvalidArgumentError("the text has no tokens; write one, or remove the row");
    ids.resize(std::min(ids.size(), static_cast<size_t>(options.max_length)));
    std::vector<uint8_t> is_target(ids.size(), 1);
    return Sample{.tensors = {{"ids", HostTensor(std::move(ids))}, {"is_target", HostTensor(std::move(is_target))}}};
  };
  return OpenRowDataset(path, make,
                        {.split = options.split,
                         .rows = options.rows,
                         .num_samples = options.num_samples,
                         .length_of = "ids",
                         .index_folder = index_folder});
}

}  // namespace distill
