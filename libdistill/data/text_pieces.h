// Plain text for encoders: rows with a text each, cut into pieces of at most max_length tokens, each with the special
// tokens of the tokenizer's post-processor around it ("[CLS] ... [SEP]").
//
//   DISTILL_ASSIGN_OR_RETURN(const TextPieces wikipedia, LoadTextPieces("wiki.parquet", tokenizer, {.max_length =
//   512}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/row_options.h"
#include "libdistill/data/token_cache_options.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct TextPiecesOptions {
  std::string split = "";       // of a folder: "train" takes train*; empty takes every file of rows
  std::string column = "text";  // the field that holds the text
  int64_t num_texts = 0;        // only the first so many usable rows; 0: all
  int64_t max_length = 512;     // tokens of a piece, special ones too
  RowOptions rows = {};         // what to do about bad ones
  int64_t num_threads = 1;      // that tokenize; what comes out is the same for any number
  TokenCache cache = {};
};

struct TextPieces {
  std::shared_ptr<Dataset> tokens;  // token samples (token_dataset.h), in memory or in mapped files; all are targets
  std::string summary;              // "texts 20000, pieces 61234, without two tokens 10 (first: train.jsonl:17)"
};

// `path`: files of rows (row_files.h), or a folder of tokens that were made so. No piece has tokens of two texts; one
// of less than two tokens of text teaches nothing and is left out, and texts that have none else are counted. Bad rows:
// broken JSON, bad UTF-8, no such field or none that is a text, a text that the tokenizer refuses. InvalidArgument: bad
// rows that are not left out (how many, the first ones with file, line and reason); nothing left; a max_length without
// room for two tokens; tokens that were made otherwise. NotFound: no such file.
[[nodiscard]] absl::StatusOr<TextPieces> LoadTextPieces(const std::string& path, const Tokenizer& tokenizer,
                                                        const TextPiecesOptions& options);

// The same of texts in memory. InvalidArgument: a text that the tokenizer refuses; nothing left; no room for two
// tokens.
[[nodiscard]] absl::StatusOr<TextPieces> CutIntoPieces(const std::vector<std::string>& texts,
                                                       const Tokenizer& tokenizer, int64_t max_length);

}  // namespace distill
