#include "libdistill/data/labelled_text_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/row_dataset.h"
#include "libdistill/data/rows.h"
#include "libdistill/store/content_hash.h"

namespace distill {
namespace {

constexpr int64_t kMostLabels = 1 << 20;  // where no names say how many there are

absl::Status CheckTextOptions(const LabelledTextOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.max_length, /*least=*/1, options.num_samples));
  const size_t texts = options.text_columns.size();
  if (texts == 0) return absl::InvalidArgumentError("text_columns is empty: name the column that holds the text");
  if (options.form == TextsForm::kJoined) return absl::OkStatus();
  if (texts != 2) {
    return absl::InvalidArgumentError(absl::StrCat("a pair is of two texts, but text_columns names ", texts, ": ",
                                                   absl::StrJoin(options.text_columns, ", "),
                                                   "; name two, or join them"));
  }
  if (options.add_special_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError("a pair of texts needs the special tokens between them: set add_special_tokens");
}

// That of a whole number of a row.
absl::StatusOr<int64_t> ClassOf(int64_t number, const LabelledTextOptions& options) {
  const auto count = static_cast<int64_t>(options.labels.size());
  const int64_t label = number - options.first_label;
  if (label >= 0 && label < (count == 0 ? kMostLabels : count)) return label;
  const bool counts_from_1 = count > 0 && options.first_label == 0 && number == count;
  return absl::InvalidArgumentError(
      absl::StrCat("'", options.label_column, "' is ", number, ", but there are ",
                   count == 0 ? absl::StrCat("at most ", kMostLabels) : absl::StrCat(count), " labels from ",
                   options.first_label, " on", counts_from_1 ? "; set first_label to 1, if rows count from 1" : ""));
}

absl::StatusOr<int64_t> LabelOf(const JsonValue& row, const LabelledTextOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const JsonValue* value, FieldOf(row, options.label_column));
  if (value->kind == JsonValue::Kind::kString) {
    const auto found = std::find(options.labels.begin(), options.labels.end(), value->text);
    if (found != options.labels.end()) return found - options.labels.begin();
    // CSV has texts alone.
    if (int64_t number = 0; absl::SimpleAtoi(value->text, &number) && number >= 0) return ClassOf(number, options);
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.label_column, "' is '", value->text, "', which is not among the labels (",
                     options.labels.empty() ? "none are named" : absl::StrJoin(options.labels, ", "),
                     "); name it, or write a number"));
  }
  DISTILL_ASSIGN_OR_RETURN(const int64_t number, WholeNumberOf(*value, options.label_column));
  return ClassOf(number, options);
}

// What becomes of a row.
struct EncodedText {
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;  // none, unless they are asked for
  int64_t label = 0;
  bool was_cut = false;
};

// Without special tokens, which takes half the time.
absl::Status EncodePlain(const std::string& text, const Tokenizer& tokenizer, const LabelledTextOptions& options,
                         EncodedText& made) {
  DISTILL_ASSIGN_OR_RETURN(made.ids, tokenizer.Encode(text));
  if (made.ids.empty()) return absl::InvalidArgumentError("the text has no tokens; write one, or remove the row");
  made.was_cut = static_cast<int64_t>(made.ids.size()) > options.max_length;
  if (made.was_cut) made.ids.resize(static_cast<size_t>(options.max_length));
  if (options.with_token_types) made.types.assign(made.ids.size(), 0);
  return absl::OkStatus();
}

absl::Status EncodeForModel(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                            const LabelledTextOptions& options, EncodedText& made) {
  const EncodeOptions how{.max_length = options.max_length};
  DISTILL_ASSIGN_OR_RETURN(Encoding encoding, texts.size() == 1 ? tokenizer.EncodeInput(texts[0], how)
                                                                : tokenizer.EncodeInput(texts[0], texts[1], how));
  const auto is_text = [](int32_t text) { return text >= 0; };
  made.was_cut = !encoding.overflowing.empty();
  if (!made.was_cut && std::none_of(encoding.texts.begin(), encoding.texts.end(), is_text)) {
    return absl::InvalidArgumentError("the text has no tokens; write one, or remove the row");
  }
  made.ids = std::move(encoding.ids);
  if (options.with_token_types) made.types.assign(encoding.type_ids.begin(), encoding.type_ids.end());
  return absl::OkStatus();
}

absl::StatusOr<EncodedText> EncodeRow(const JsonValue& row, const Tokenizer& tokenizer,
                                      const LabelledTextOptions& options) {
  EncodedText made;
  std::vector<std::string> texts;
  for (const std::string& column : options.text_columns) {
    DISTILL_ASSIGN_OR_RETURN(texts.emplace_back(), TextOf(row, column));
  }
  DISTILL_ASSIGN_OR_RETURN(made.label, LabelOf(row, options));
  if (options.form == TextsForm::kJoined) texts = {absl::StrJoin(texts, options.delimiter)};
  DISTILL_RETURN_IF_ERROR(options.add_special_tokens ? EncodeForModel(texts, tokenizer, options, made)
                                                     : EncodePlain(texts[0], tokenizer, options, made));
  return made;
}

// All samples one after another.
struct TextArrays {
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;
  std::vector<int64_t> begins = {0};  // in ids, of each sample; one more for the end
  std::vector<int64_t> labels;

  void Add(const EncodedText& text) {
    ids.insert(ids.end(), text.ids.begin(), text.ids.end());
    types.insert(types.end(), text.types.begin(), text.types.end());
    begins.push_back(static_cast<int64_t>(ids.size()));
    labels.push_back(text.label);
  }
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

class LabelledTexts : public Dataset {
 public:
  LabelledTexts(TextArrays arrays, bool has_types)
      : arrays_(std::make_shared<const TextArrays>(std::move(arrays))), has_types_(has_types) {}

  int64_t size() const override { return arrays_->size(); }
  absl::StatusOr<int64_t> Length(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    return arrays_->begins[index + 1] - arrays_->begins[index];
  }
  absl::StatusOr<Sample> Read(int64_t index) const override {
    DISTILL_ASSIGN_OR_RETURN(const int64_t length, Length(index));
    const int64_t begin = arrays_->begins[index];
    Sample sample{.id = index,
                  .tensors = {{"ids", View(arrays_->ids.data() + begin, {length})},
                              {"label", View(arrays_->labels.data() + index, {})}}};
    if (has_types_) sample.tensors["token_types"] = View(arrays_->types.data() + begin, {length});
    return sample;
  }
  absl::StatusOr<std::string> Fingerprint() const override {
    ContentHash hash;
    Add(arrays_->ids, hash);
    Add(arrays_->types, hash);
    Add(arrays_->begins, hash);
    Add(arrays_->labels, hash);
    return absl::StrCat(size(), " labelled texts with XXH3 ", hash.Hex());
  }
  int64_t MemoryBytes() const override {
    return BytesOf(arrays_->ids) + BytesOf(arrays_->types) + BytesOf(arrays_->begins) + BytesOf(arrays_->labels);
  }

 private:
  template <typename T>
  HostTensor View(const T* data, std::vector<int64_t> shape) const {
    return HostTensor(DTypeOf<T>(), std::move(shape), std::shared_ptr<const void>(arrays_, data));
  }
  template <typename T>
  static int64_t BytesOf(const std::vector<T>& values) {
    return static_cast<int64_t>(values.capacity() * sizeof(T));
  }
  template <typename T>
  static void Add(const std::vector<T>& values, ContentHash& hash) {
    hash.Add(values.data(), values.size() * sizeof(T));
  }

  const std::shared_ptr<const TextArrays> arrays_;
  const bool has_types_;
};

void Count(int64_t label, std::vector<int64_t>& counts) {
  if (label >= static_cast<int64_t>(counts.size())) counts.resize(static_cast<size_t>(label) + 1);
  ++counts[static_cast<size_t>(label)];
}

}  // namespace

absl::StatusOr<LabelledTextDataset> LoadLabelledTextDataset(const std::string& path, const Tokenizer& tokenizer,
                                                            const LabelledTextOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckTextOptions(options));
  TextArrays arrays;
  LabelledTextDataset data;
  data.label_counts.resize(options.labels.size());
  int64_t cut = 0;
  const auto encode = [&](const JsonValue& row) -> absl::StatusOr<MadeOfRow> {
    DISTILL_ASSIGN_OR_RETURN(EncodedText text, EncodeRow(row, tokenizer, options));
    return std::make_shared<EncodedText>(std::move(text));
  };
  const auto take = [&](const MadeOfRow& made, const std::string&) -> absl::StatusOr<bool> {
    const auto& text = *static_cast<const EncodedText*>(made.get());
    arrays.Add(text);
    cut += text.was_cut;
    Count(text.label, data.label_counts);
    return options.num_samples == 0 || arrays.size() < options.num_samples;
  };
  DISTILL_RETURN_IF_ERROR(ForEachEncodedRow(path, options.split, options.rows, options.num_threads, encode, take));
  if (arrays.size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the data set is empty; write a row a line, {\"",
                                                   absl::StrJoin(options.text_columns, "\": \"...\", \""),
                                                   "\": \"...\", \"", options.label_column,
                                                   "\": 0}, or name another file"));
  }
  data.num_labels = static_cast<int64_t>(data.label_counts.size());
  data.summary =
      absl::StrCat("rows ", arrays.size(), ", labels ", data.num_labels, " (", absl::StrJoin(data.label_counts, ", "),
                   ")", cut == 0 ? "" : absl::StrCat(", cut to max_length ", options.max_length, " ", cut));
  data.samples = std::make_shared<LabelledTexts>(std::move(arrays), options.with_token_types);
  return data;
}

absl::StatusOr<std::shared_ptr<Dataset>> OpenLabelledTextDataset(const std::string& path, Tokenizer tokenizer,
                                                                 const LabelledTextOptions& options,
                                                                 const std::string& index_folder) {
  DISTILL_RETURN_IF_ERROR(CheckTextOptions(options));
  DISTILL_RETURN_IF_ERROR(CheckCanBeReadByRows(options.rows));
  const auto make = [tokenizer = std::make_shared<const Tokenizer>(std::move(tokenizer)),
                     options](const JsonValue& row) -> absl::StatusOr<Sample> {
    DISTILL_ASSIGN_OR_RETURN(EncodedText text, EncodeRow(row, *tokenizer, options));
    Sample sample{.tensors = {{"ids", HostTensor(std::move(text.ids))},
                              {"label", HostTensor(std::vector<int64_t>{text.label}, {})}}};
    if (options.with_token_types) sample.tensors["token_types"] = HostTensor(std::move(text.types));
    return sample;
  };
  return OpenRowDataset(path, make,
                        {.split = options.split,
                         .rows = options.rows,
                         .num_samples = options.num_samples,
                         .length_of = "ids",
                         .index_folder = index_folder});
}

}  // namespace distill
