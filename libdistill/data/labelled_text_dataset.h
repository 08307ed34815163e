// Texts with a class each, out of files of rows (docs/formats.md, "Text and labelled text"): {"text": "...", "label":
// 1}.
//
//   DISTILL_ASSIGN_OR_RETURN(auto data, LoadLabelledTextDataset("reviews.jsonl", tokenizer, {.max_length = 128}));
//   LabelledTextOptions polarity{.text_columns = {"title", "content"}, .form = TextsForm::kPair, .first_label = 1};
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/core/describe.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/row_options.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// What becomes of a row's texts, where it has several.
enum class TextsForm {
  kJoined,  // one text, with a delimiter between them
  kPair,    // two texts, each with special tokens as the tokenizer puts them around pairs: [CLS] a [SEP] b [SEP]
};

constexpr EnumNames<TextsForm, 2> NamesOf(TextsForm) {
  return {{{"joined", TextsForm::kJoined}, {"pair", TextsForm::kPair}}};
}

struct LabelledTextOptions {
  std::string split = "";  // of a folder: "train" takes train*.jsonl; empty takes every file of rows
  std::vector<std::string> text_columns = {"text"};  // one or more; two of a pair
  TextsForm form = TextsForm::kJoined;
  std::string delimiter = " ";  // of joined texts
  std::string label_column = "label";
  std::vector<std::string> labels = {};  // names of the classes, from 0, where rows hold names in place of numbers
  int64_t first_label = 0;               // the number that rows have for the first class
  // Those of the tokenizer's post-processor ([CLS], [SEP]), without which there are no pairs. They are never cut off.
  bool add_special_tokens = false;
  bool with_token_types = false;  // samples have "token_types" too
  int64_t num_samples = 0;        // 0: all; otherwise the first ones
  int64_t max_length = 512;       // longer texts are cut at the end, the longer one of a pair first
  RowOptions rows = {};           // what to do about bad ones
  int64_t num_threads = 1;        // that tokenize; the samples are the same for any number
};

struct LabelledTextDataset {
  // "ids" (int32 [T]), "label" (int64 []), and "token_types" (uint8 [T]: of which text of a pair), in memory; their
  // length is T. Views of three arrays, which the samples keep alive.
  std::shared_ptr<Dataset> samples;
  int64_t num_labels = 0;             // the names given, or one more than the largest number
  std::vector<int64_t> label_counts;  // samples of each
  std::string summary;                // "rows 25000, labels 2 (12400, 12600), cut to max_length 512 120"
};

// `path`: a file of rows, or a folder of them. No good row is left out: evaluation counts each. Bad rows: broken JSON,
// bad UTF-8, a missing field, a text without tokens or that the tokenizer refuses, a label that is no whole number from
// first_label or not among the names. InvalidArgument: bad rows that are not left out (how many, the first ones with
// file, line and reason); no rows; options that contradict one another. NotFound: no such file.
[[nodiscard]] absl::StatusOr<LabelledTextDataset> LoadLabelledTextDataset(const std::string& path,
                                                                          const Tokenizer& tokenizer,
                                                                          const LabelledTextOptions& options);

// The same of data that no memory holds: rows are read and tokenized when they are needed (OpenRowDataset, whose
// errors these are), and none is read before but to index or count it, in `index_folder` where one is named. How many
// labels there are is the caller's to know. InvalidArgument: bad rows are to be left out, which cannot be.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Dataset>> OpenLabelledTextDataset(const std::string& path,
                                                                               Tokenizer tokenizer,
                                                                               const LabelledTextOptions& options,
                                                                               const std::string& index_folder = "");

}  // namespace distill
