#include "libdistill/data/span_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/rows.h"

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
    std::vector<int32_t> head = options_.begin_ids;
    DISTILL_ASSIGN_OR_RETURN(const std::vector<int32_t> question, tokenizer_.Encode(row.question));
    DISTILL_ASSIGN_OR_RETURN(const Encoding context,
                             tokenizer_.EncodeInput(row.context, {.add_special_tokens = false}));
    head.insert(head.end(), question.begin(), question.end());
    head.insert(head.end(), options_.separator_ids.begin(), options_.separator_ids.end());
    const int64_t count = context.size();
    const int64_t room = options_.max_length - static_cast<int64_t>(head.size() + options_.end_ids.size());
    if (count == 0) return absl::InvalidArgumentError("the context has no tokens");
    if (room < 1 || (room < count && room <= options_.stride)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the question of ", question.size(), " tokens leaves room for ", std::max<int64_t>(room, 0),
                       " tokens of the context, which must be more than stride, ", options_.stride,
                       ": raise max_length, which is ", options_.max_length, ", or lower stride"));
    }
    for (int64_t begin = 0;; begin += room - options_.stride) {
      const int64_t end = std::min(begin + room, count);
      windows_.push_back(Window(head, absl::MakeConstSpan(context.ids).subspan(begin, end - begin),
                                absl::MakeConstSpan(context.offsets).subspan(begin, end - begin), answers));
      if (end == count) return absl::OkStatus();
    }
  }

  Sample Window(const std::vector<int32_t>& head, absl::Span<const int32_t> context,
                absl::Span<const std::pair<int64_t, int64_t>> offsets, const std::vector<Answer>& answers) const {
    std::vector<int32_t> ids = head;
    ids.insert(ids.end(), context.begin(), context.end());
    ids.insert(ids.end(), options_.end_ids.begin(), options_.end_ids.end());
    std::vector<int32_t> types(ids.size(), 1);
    std::fill_n(types.begin(), head.size(), 0);
    std::vector<int64_t> places(2 * ids.size(), -1);
    for (size_t i = 0; i < offsets.size(); ++i) {
      places[2 * (head.size() + i)] = offsets[i].first;
      places[2 * (head.size() + i) + 1] = offsets[i].second;
    }
    int64_t start = options_.no_answer, last = options_.no_answer;
    if (!answers.empty() && offsets.front().first <= answers[0].begin && answers[0].end <= offsets.back().second) {
      const auto first_at = [&](int64_t byte) {  // the token that this byte is in
        const auto found =
            std::find_if(offsets.begin(), offsets.end(), [byte](const auto& span) { return span.second > byte; });
        return static_cast<int64_t>(head.size()) + (found - offsets.begin());
      };
      start = first_at(answers[0].begin);
      last = first_at(answers[0].end - 1);
    }
    const auto length = static_cast<int64_t>(ids.size());
    const auto scalar = [](int64_t value) { return HostTensor(std::vector<int64_t>{value}, {}); };
    return {.tensors = {{"ids", HostTensor(std::move(ids))},
                        {"token_types", HostTensor(std::move(types))},
                        {"offsets", HostTensor(std::move(places), {length, 2})},
                        {"start", scalar(start)},
                        {"end", scalar(last)},
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
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.max_length, /*least=*/1, options.num_samples));
  if (options.stride < 0) {
    return absl::InvalidArgumentError(absl::StrCat("stride is ", options.stride, ": it cannot be negative"));
  }
  SpanLoader loader(tokenizer, options);
  const auto add = [&](const JsonValue& row, const std::string& place) { return loader.Add(row, place); };
  DISTILL_RETURN_IF_ERROR(ForEachRow(path, options.split, options.rows, add));
  return loader.Finish(path);
}

}  // namespace distill
