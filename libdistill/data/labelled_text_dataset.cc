#include "libdistill/data/labelled_text_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/jsonl_dataset.h"
#include "libdistill/data/rows.h"

namespace distill {
namespace {

absl::StatusOr<int64_t> LabelOf(const JsonValue& row, const LabelledTextOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const JsonValue* value, FieldOf(row, options.label_column));
  const auto count = static_cast<int64_t>(options.labels.size());
  if (value->kind == JsonValue::Kind::kString) {
    const auto found = std::find(options.labels.begin(), options.labels.end(), value->text);
    if (found != options.labels.end()) return found - options.labels.begin();
    // CSV has texts alone.
    if (int64_t number = 0; options.labels.empty() && absl::SimpleAtoi(value->text, &number) && number >= 0)
      return number;
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.label_column, "' is '", value->text, "', which is not among the labels (",
                     options.labels.empty() ? "none are named" : absl::StrJoin(options.labels, ", "),
                     "); name it, or write a number"));
  }
  DISTILL_ASSIGN_OR_RETURN(const int64_t label, WholeNumberOf(*value, options.label_column));
  if (count == 0 || label < count) return label;
  return absl::InvalidArgumentError(
      absl::StrCat("'", options.label_column, "' is ", label, ", but there are ", count, " labels"));
}

// A row's sample; `was_cut` says whether its text is longer.
absl::StatusOr<Sample> SampleOf(const JsonValue& row, const Tokenizer& tokenizer, const LabelledTextOptions& options,
                                bool& was_cut) {
  DISTILL_ASSIGN_OR_RETURN(const std::string text, TextOf(row, options.text_column));
  DISTILL_ASSIGN_OR_RETURN(const int64_t label, LabelOf(row, options));
  DISTILL_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode(text));
  if (ids.empty()) return absl::InvalidArgumentError("the text has no tokens; write one, or remove the row");
  was_cut = static_cast<int64_t>(ids.size()) > options.max_length;
  if (was_cut) ids.resize(static_cast<size_t>(options.max_length));
  return Sample{
      .tensors = {{"ids", HostTensor(std::move(ids))}, {"label", HostTensor(std::vector<int64_t>{label}, {})}}};
}

}  // namespace

absl::StatusOr<LabelledTextDataset> LoadLabelledTextDataset(const std::string& path, const Tokenizer& tokenizer,
                                                            const LabelledTextOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.max_length, /*least=*/1, options.num_samples));
  std::vector<Sample> samples;
  LabelledTextDataset data;
  data.num_labels = static_cast<int64_t>(options.labels.size());
  int64_t cut = 0;
  const auto add = [&](const JsonValue& row, const std::string&) -> absl::StatusOr<bool> {
    bool was_cut = false;
    DISTILL_ASSIGN_OR_RETURN(Sample sample, SampleOf(row, tokenizer, options, was_cut));
    cut += was_cut;
    data.num_labels = std::max(data.num_labels, (*sample.Get<int64_t>("label"))[0] + 1);
    samples.push_back(std::move(sample));
    return options.num_samples == 0 || static_cast<int64_t>(samples.size()) < options.num_samples;
  };
  DISTILL_RETURN_IF_ERROR(ForEachRow(path, options.split, options.rows, add));
  if (samples.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the data set is empty; write a row a line, {\"",
                                                   options.text_column, "\": \"...\", \"", options.label_column,
                                                   "\": 0}, or name another file"));
  }
  data.summary = absl::StrCat("rows ", samples.size(), ", labels ", data.num_labels,
                              cut == 0 ? "" : absl::StrCat(", cut to max_length ", options.max_length, " ", cut));
  data.samples = MakeDataset(std::move(samples), "ids");
  return data;
}

absl::StatusOr<std::shared_ptr<Dataset>> OpenLabelledTextDataset(const std::string& path, Tokenizer tokenizer,
                                                                 const LabelledTextOptions& options,
                                                                 const std::string& index_folder) {
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.max_length, /*least=*/1, options.num_samples));
  DISTILL_RETURN_IF_ERROR(CheckCanBeReadByRows(options.rows));
  const auto make = [tokenizer = std::make_shared<const Tokenizer>(std::move(tokenizer)),
                     options](const JsonValue& row) {
    bool was_cut = false;
    return SampleOf(row, *tokenizer, options, was_cut);
  };
  return OpenJsonlDataset(path, make,
                          {.split = options.split,
                           .columns = options.rows.columns,
                           .num_samples = options.num_samples,
                           .length_of = "ids",
                           .index_folder = index_folder});
}

}  // namespace distill
