#include "libdistill/data/span_dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/rows.h"
#include "libdistill/data/squad_file.h"

namespace distill {
namespace {

// Bytes [begin, end) of a context.
struct Answer {
  std::string text;
  int64_t begin = 0, end = 0;
};

// Where a text's character number `character` begins; as long as the text for the one after the last, longer beyond.
size_t ByteOf(const std::string& text, int64_t character) {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80;
    if (begins && character-- == 0) return i;
  }
  return text.size() + static_cast<size_t>(character);
}

absl::StatusOr<std::vector<JsonValue>> ListOf(const JsonValue& object, const std::string& name) {
  DISTILL_ASSIGN_OR_RETURN(const JsonValue* value, FieldOf(object, name));
  if (value->kind == JsonValue::Kind::kArray) return value->items;
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no list"));
}

absl::StatusOr<std::vector<Answer>> AnswersOf(const JsonValue& row, const std::string& context) {
  DISTILL_ASSIGN_OR_RETURN(const JsonValue* value, FieldOf(row, "answers"));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<JsonValue> texts, ListOf(*value, "text"));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<JsonValue> starts, ListOf(*value, "answer_start"));
  if (texts.size() != starts.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'answers' has ", texts.size(), " in 'text', but ", starts.size(), " in 'answer_start'"));
  }
  std::vector<Answer> answers;
  for (size_t i = 0; i < texts.size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(const int64_t character, WholeNumberOf(starts[i], "answer_start"));
    const size_t begin = ByteOf(context, character);
    const std::string& text = texts[i].text;
    if (text.empty() || begin > context.size() || context.compare(begin, text.size(), text) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("answer ", i, ", '", text, "', does not stand at character ", character, " of the context"));
    }
    answers.push_back({text, static_cast<int64_t>(begin), static_cast<int64_t>(begin + text.size())});
  }
  return answers;
}

class SpanLoader {
 public:
  SpanLoader(const Tokenizer& tokenizer, const SpanDatasetOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  absl::StatusOr<bool> Add(const JsonValue& row, const std::string& place) {
    SpanRow kept;
    kept.id = place;
    if (row.Find("id") != nullptr) {
      DISTILL_ASSIGN_OR_RETURN(kept.id, TextOf(row, "id"));
    }
    DISTILL_ASSIGN_OR_RETURN(kept.question, TextOf(row, "question"));
    DISTILL_ASSIGN_OR_RETURN(kept.context, TextOf(row, "context"));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<Answer> answers, AnswersOf(row, kept.context));
    for (const Answer& answer : answers) kept.answers.push_back(answer.text);
    DISTILL_RETURN_IF_ERROR(AddWindows(kept, answers));
    if (answers.empty()) without_answer_.Add(place);
    data_.rows.push_back(std::move(kept));
    return options_.num_samples == 0 || static_cast<int64_t>(data_.rows.size()) < options_.num_samples;
  }

  absl::StatusOr<SpanDataset> Finish(const std::string& path) {
    if (data_.rows.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the data set is empty; write one question a line, or name another file"));
    }
    data_.summary = absl::StrCat("rows ", data_.rows.size(), ", windows ", windows_.size(),
                                 without_answer_.Describe("without an answer"));
    data_.windows = MakeDataset(std::move(windows_), "ids");
    return std::move(data_);
  }

 private:
  absl::Status AddWindows(const SpanRow& row, const std::vector<Answer>& answers) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<Encoding> windows,
                             WindowsOf(tokenizer_, row.question, row.context, options_.windows));
    for (const Encoding& window : windows) windows_.push_back(MakeSample(window, answers));
    return absl::OkStatus();
  }

  Sample MakeSample(const Encoding& window, const std::vector<Answer>& answers) const {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < window.size(); ++i) {
      const auto [begin, end] = window.texts[i] == 1 ? window.offsets[i] : std::pair<int64_t, int64_t>(-1, -1);
      places.insert(places.end(), {begin, end});
    }
    const int64_t no_answer = PlaceOfNoAnswer(tokenizer_, window);
    const TokenSpan span = answers.empty() ? TokenSpan{no_answer, no_answer}
                                           : SpanOfBytes(window, answers[0].begin, answers[0].end, no_answer);
    const auto scalar = [](int64_t value) { return HostTensor(std::vector<int64_t>{value}, {}); };
    return {.tensors = {{"ids", HostTensor(std::vector<int32_t>(window.ids))},
                        {"token_types", HostTensor(std::vector<int32_t>(window.type_ids))},
                        {"offsets", HostTensor(std::move(places), {window.size(), 2})},
                        {"start", scalar(span.start)},
                        {"end", scalar(span.end)},
                        {"row", scalar(static_cast<int64_t>(data_.rows.size()))}}};
  }

  const Tokenizer& tokenizer_;
  const SpanDatasetOptions options_;
  SpanDataset data_;
  std::vector<Sample> windows_;
  CountedRows without_answer_;
};

}  // namespace

absl::StatusOr<SpanDataset> LoadSpanDataset(const std::string& path, const Tokenizer& tokenizer,
                                            const SpanDatasetOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.windows.max_length, /*least=*/1, options.num_samples));
  if (options.windows.stride < 0) {
    return absl::InvalidArgumentError(absl::StrCat("stride is ", options.windows.stride, ": it cannot be negative"));
  }
  SpanLoader loader(tokenizer, options);
  const auto add = [&](const JsonValue& row, const std::string& place) { return loader.Add(row, place); };
  DISTILL_RETURN_IF_ERROR(IsSquadFileName(path) ? ForEachSquadRow(path, options.rows, add)
                                                : ForEachRow(path, options.split, options.rows, add));
  return loader.Finish(path);
}

}  // namespace distill
