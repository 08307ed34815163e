#include "libdistill/data/text_pieces.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/rows.h"
#include "libdistill/data/rows_read_json.h"
#include "libdistill/data/token_cache.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/data/token_source.h"

namespace distill {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLeastTokens = 2;  // of a text, in a piece

// What stands around a text: [CLS] and [SEP], or <s> and </s>.
struct Frame {
  std::vector<int32_t> before, after;
  int64_t size() const { return static_cast<int64_t>(before.size() + after.size()); }
};

absl::StatusOr<Frame> FrameOf(const Tokenizer& tokenizer) {
  DISTILL_ASSIGN_OR_RETURN(const Encoding text, tokenizer.EncodeInput("a"));
  const auto is_text = [](uint8_t is_special) { return is_special == 0; };
  const auto first = std::find_if(text.is_special.begin(), text.is_special.end(), is_text) - text.is_special.begin();
  Frame frame;
  for (int64_t i = 0; i < text.size(); ++i) {
    if (text.is_special[i] != 0) (i < first ? frame.before : frame.after).push_back(text.ids[i]);
  }
  return frame;
}

absl::StatusOr<Frame> FrameWithin(const Tokenizer& tokenizer, int64_t max_length, int64_t num_texts) {
  DISTILL_ASSIGN_OR_RETURN(Frame frame, FrameOf(tokenizer));
  DISTILL_RETURN_IF_ERROR(CheckLimits(max_length, frame.size() + kLeastTokens, num_texts));
  return frame;
}

// How many pieces there were.
int64_t Cut(const std::vector<int32_t>& ids, const Frame& frame, int64_t max_length,
            absl::FunctionRef<void(TokenSample sample)> on_sample) {
  const auto room = max_length - frame.size(), size = static_cast<int64_t>(ids.size());
  int64_t pieces = 0;
  for (int64_t begin = 0; begin + kLeastTokens <= size; begin += room, ++pieces) {
    TokenSample sample{.ids = frame.before, .is_target = {}};
    sample.ids.insert(sample.ids.end(), ids.begin() + begin, ids.begin() + std::min(begin + room, size));
    sample.ids.insert(sample.ids.end(), frame.after.begin(), frame.after.end());
    sample.is_target.assign(sample.ids.size(), 1);
    on_sample(std::move(sample));
  }
  return pieces;
}

struct PieceCounts {
  RowsRead rows = {};
  int64_t texts = 0;  // without bad ones
  int64_t pieces = 0;
  CountedRows too_short = {};
};

class PieceSource : public TokenSource {
 public:
  PieceSource(const std::string& path, const Tokenizer& tokenizer, const TextPiecesOptions& options, Frame frame)
      : TokenSource({.path = path,
                     .split = options.split,
                     .rows = options.rows,
                     .num_rows = options.num_texts,
                     .recipe = {.tokenizer = tokenizer.fingerprint(),
                                .chat_template = "",
                                .train_on = absl::StrCat("pieces of ", options.column),
                                .max_length = options.max_length}}),
        tokenizer_(tokenizer),
        how_(options),
        frame_(std::move(frame)) {}

  absl::Status ForEach(absl::FunctionRef<void(TokenSample sample)> on_sample,
                       const std::function<absl::Status()>& on_chunk) override {
    const auto encode = [&](const JsonValue& row) -> absl::StatusOr<MadeOfRow> {
      DISTILL_ASSIGN_OR_RETURN(const std::string text, TextOf(row, how_.column));
      DISTILL_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer_.Encode(text));
      return std::make_shared<std::vector<int32_t>>(std::move(ids));
    };
    const auto take = [&](const MadeOfRow& made, const std::string& place) -> absl::StatusOr<bool> {
      const int64_t pieces =
          Cut(*static_cast<const std::vector<int32_t>*>(made.get()), frame_, how_.max_length, on_sample);
      if (pieces == 0) counts_.too_short.Add(place);
      counts_.pieces += pieces;
      ++counts_.texts;
      return how_.num_texts == 0 || counts_.texts < how_.num_texts;
    };
    const ResumeRows resume = {.from = counts_.rows, .on_chunk = [&](const RowsRead& so_far) {
                                 counts_.rows = so_far;
                                 return on_chunk ? on_chunk() : absl::OkStatus();
                               }};
    DISTILL_RETURN_IF_ERROR(
        ForEachEncodedRow(options().path, how_.split, how_.rows, how_.num_threads, encode, take, resume));
    if (counts_.pieces > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(options().path, ": nothing is left to train on: ", Summary(),
                                                   "; write a text a row, {\"", how_.column, "\": \"...\"}"));
  }

  std::string Progress() const override {
    Json json;
    WriteRowsRead(counts_.rows, json);
    json["texts"] = counts_.texts;
    json["pieces"] = counts_.pieces;
    json["too_short"] = WriteCountedRows(counts_.too_short);
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  absl::Status Restore(absl::string_view progress) override {
    try {
      const Json json = Json::parse(progress);
      counts_ = {.rows = ReadRowsRead(json),
                 .texts = json.at("texts"),
                 .pieces = json.at("pieces"),
                 .too_short = ReadCountedRows(json.at("too_short"))};
      return absl::OkStatus();
    } catch (const Json::exception& error) {
      return absl::DataLossError(absl::StrCat("its notes make no sense: ", error.what()));
    }
  }

  const RowsRead& rows_read() const override { return counts_.rows; }
  std::string Summary() const override {
    return absl::StrCat("texts ", counts_.texts, ", pieces ", counts_.pieces,
                        counts_.too_short.Describe("without two tokens"));
  }

 private:
  const Tokenizer& tokenizer_;
  const TextPiecesOptions how_;
  const Frame frame_;
  PieceCounts counts_;
};

}  // namespace

absl::StatusOr<TextPieces> LoadTextPieces(const std::string& path, const Tokenizer& tokenizer,
                                          const TextPiecesOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(Frame frame, FrameWithin(tokenizer, options.max_length, options.num_texts));
  PieceSource source(path, tokenizer, options, std::move(frame));
  std::optional<KeptTokens> kept;
  if (IsTokenFolder(path)) {
    DISTILL_ASSIGN_OR_RETURN(kept, LoadTokenFolder(source.options()));
  } else if (!options.cache.folder.empty()) {
    DISTILL_ASSIGN_OR_RETURN(kept, LoadThroughTokenCache(source, options.cache));
  }
  if (kept) return TextPieces{std::move(kept->tokens), std::move(kept->summary)};
  std::vector<TokenSample> samples;
  DISTILL_RETURN_IF_ERROR(source.ForEach([&](TokenSample sample) { samples.push_back(std::move(sample)); }, {}));
  return TextPieces{MakeTokenDataset(std::move(samples)), source.Summary()};
}

absl::StatusOr<TextPieces> CutIntoPieces(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                                         int64_t max_length) {
  DISTILL_ASSIGN_OR_RETURN(const Frame frame, FrameWithin(tokenizer, max_length, /*num_texts=*/0));
  std::vector<TokenSample> samples;
  for (const std::string& text : texts) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.Encode(text));
    Cut(ids, frame, max_length, [&](TokenSample sample) { samples.push_back(std::move(sample)); });
  }
  if (samples.empty()) return absl::InvalidArgumentError("nothing is left to train on: no text has two tokens");
  const std::string summary = absl::StrCat("texts ", texts.size(), ", pieces ", samples.size());
  return TextPieces{MakeTokenDataset(std::move(samples)), summary};
}

}  // namespace distill
