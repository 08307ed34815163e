// Texts with a class each, out of JSON Lines: {"text": "...", "label": 1}.
//
//   DISTILL_ASSIGN_OR_RETURN(auto data, LoadLabelledTextDataset("reviews.jsonl", tokenizer, {.max_length = 128}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/row_options.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct LabelledTextOptions {
  std::string split = "";  // of a folder: "train" takes train*.jsonl; empty takes every *.jsonl
  std::string text_column = "text";
  std::string label_column = "label";
  std::vector<std::string> labels = {};  // names of the classes, from 0, where rows hold names in place of numbers
  int64_t num_samples = 0;               // 0: all; otherwise the first ones
  int64_t max_length = 512;              // longer texts are cut at the end
  RowOptions rows = {};                  // what to do about bad ones
};

struct LabelledTextDataset {
  std::shared_ptr<Dataset> samples;  // "ids" (int32 [T]) and "label" (int64 []), in memory; their length is T
  int64_t num_labels = 0;            // the names given, or one more than the largest number
  std::string summary;               // "rows 25000, labels 2, cut to max_length 512 120"
};

// `path`: a .jsonl file, or a folder of them. No good row is left out: evaluation counts each. Bad rows: broken JSON,
// bad UTF-8, a missing field, a text without tokens or that the tokenizer refuses, a label that is no whole number from
// 0 or not among the names. InvalidArgument: bad rows that are not left out (how many, the first ones with file, line
// and reason); no rows. NotFound: no such file.
[[nodiscard]] absl::StatusOr<LabelledTextDataset> LoadLabelledTextDataset(const std::string& path,
                                                                          const Tokenizer& tokenizer,
                                                                          const LabelledTextOptions& options);

// The same of data that no memory holds: rows are read and tokenized when they are needed (jsonl_dataset.h, whose
// errors these are), and no line is read before but to index it, in `index_folder` where one is named. How many labels
// there are is the caller's to know. InvalidArgument: bad rows are to be left out, which cannot be.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Dataset>> OpenLabelledTextDataset(const std::string& path,
                                                                               Tokenizer tokenizer,
                                                                               const LabelledTextOptions& options,
                                                                               const std::string& index_folder = "");

}  // namespace distill
