// Plain text as token samples, for training a language model on all of it: JSON Lines with a text a row.
//
//   DISTILL_ASSIGN_OR_RETURN(auto data, LoadTextDataset("pages.jsonl", tokenizer, {.max_length = 1024}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/row_options.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// How texts become samples. Where the tokenizer names an eos_token it ends each text.
enum class TextForm {
  kCut,     // a text is a sample, cut at max_length
  kBlocks,  // all texts one after another, cut into samples of max_length; the last one may be shorter
};

struct TextDatasetOptions {
  std::string split = "";       // of a folder: "train" takes train*.jsonl; empty takes every *.jsonl
  std::string column = "text";  // the field that holds the text
  int64_t num_samples = 0;      // 0: all; otherwise the first ones
  int64_t max_length = 4096;    // in tokens, at least 2
  TextForm form = TextForm::kCut;
  RowOptions rows = {};  // what to do about bad ones
};

struct TextDataset {
  std::shared_ptr<Dataset> tokens;  // token samples (data/token_dataset.h), in memory; every token is a target
  std::string summary;              // "rows 20000, used 19990, too short 10 (first: train.jsonl:17)"
};

// `path`: a .jsonl file, or a folder of them. Texts of less than two tokens teach nothing and are left out, counted.
// Bad rows: broken JSON, bad UTF-8, a missing field, a text that the tokenizer refuses. InvalidArgument: bad rows that
// are not left out (how many, the first ones with file, line and reason); nothing left; kBlocks with a tokenizer that
// names no eos_token, so that texts would run into one another. NotFound: no such file.
[[nodiscard]] absl::StatusOr<TextDataset> LoadTextDataset(const std::string& path, const Tokenizer& tokenizer,
                                                          const TextDatasetOptions& options);

// The same of data that no memory holds, with kCut: rows are read and tokenized when they are needed (OpenRowDataset,
// whose errors these are), and none is read before but to index or count it, in `index_folder` where one is named.
// Every row is a sample; one of a single token teaches nothing. InvalidArgument: kBlocks; bad rows are to be left out,
// which cannot be.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Dataset>> OpenTextDataset(const std::string& path, Tokenizer tokenizer,
                                                                       const TextDatasetOptions& options,
                                                                       const std::string& index_folder = "");

}  // namespace distill
