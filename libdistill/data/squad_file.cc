#include "libdistill/data/squad_file.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/bad_row_list.h"
#include "libdistill/data/rows.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

JsonValue ListValue(std::vector<JsonValue> items) {
  JsonValue list;
  list.kind = JsonValue::Kind::kArray;
  list.items = std::move(items);
  return list;
}

JsonValue ObjectValue(std::vector<std::pair<std::string, JsonValue>> members) {
  JsonValue object;
  object.kind = JsonValue::Kind::kObject;
  object.members = std::move(members);
  return object;
}

absl::StatusOr<const std::vector<JsonValue>*> ListIn(const JsonValue& object, const std::string& name) {
  DISTILL_ASSIGN_OR_RETURN(const JsonValue* value, FieldOf(object, name));
  if (value->kind == JsonValue::Kind::kArray) return &value->items;
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no list"));
}

// [{"text": "a", "answer_start": 1}, ...] as {"text": ["a", ...], "answer_start": [1, ...]}.
absl::StatusOr<JsonValue> AnswersInLists(const JsonValue& question) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<JsonValue>* answers, ListIn(question, "answers"));
  std::vector<JsonValue> texts, starts;
  for (const JsonValue& answer : *answers) {
    DISTILL_ASSIGN_OR_RETURN(const JsonValue* text, FieldOf(answer, "text"));
    DISTILL_ASSIGN_OR_RETURN(const JsonValue* start, FieldOf(answer, "answer_start"));
    texts.push_back(*text);
    starts.push_back(*start);
  }
  return ObjectValue({{"text", ListValue(std::move(texts))}, {"answer_start", ListValue(std::move(starts))}});
}

absl::StatusOr<JsonValue> RowOf(const JsonValue& question, const JsonValue* title, const JsonValue& context) {
  DISTILL_ASSIGN_OR_RETURN(const JsonValue* text, FieldOf(question, "question"));
  DISTILL_ASSIGN_OR_RETURN(JsonValue answers, AnswersInLists(question));
  JsonValue row = ObjectValue({{"context", context}, {"question", *text}, {"answers", std::move(answers)}});
  if (const JsonValue* id = question.Find("id")) row.members.emplace_back("id", *id);
  if (title != nullptr) row.members.emplace_back("title", *title);
  return row;
}

using OnRow = absl::FunctionRef<absl::StatusOr<bool>(const JsonValue& row, const std::string& place)>;

class SquadReader {
 public:
  SquadReader(const std::string& path, const RowOptions& options, OnRow on_row)
      : path_(path), name_(LastName(path)), bad_(path, options), on_row_(on_row) {}

  absl::Status Read(const std::vector<JsonValue>& data) {
    for (size_t i = 0; i < data.size() && wants_more_; ++i) {
      if (data[i].Find("paragraphs") != nullptr) {
        Article(data[i], absl::StrCat(": article ", i + 1));
      } else {
        Take(data[i], absl::StrCat(": row ", i + 1));
      }
    }
    return error_.ok() ? bad_.Finish(rows_) : error_;
  }

 private:
  void Article(const JsonValue& article, const std::string& place) {
    const auto paragraphs = ListIn(article, "paragraphs");
    if (!paragraphs.ok()) return Refuse(paragraphs.status(), place);
    for (size_t i = 0; i < (*paragraphs)->size() && wants_more_; ++i) {
      Paragraph((**paragraphs)[i], article.Find("title"), absl::StrCat(place, ", paragraph ", i + 1));
    }
  }

  void Paragraph(const JsonValue& paragraph, const JsonValue* title, const std::string& place) {
    const auto context = FieldOf(paragraph, "context");
    if (!context.ok()) return Refuse(context.status(), place);
    const auto questions = ListIn(paragraph, "qas");
    if (!questions.ok()) return Refuse(questions.status(), place);
    for (size_t i = 0; i < (*questions)->size() && wants_more_; ++i) {
      const std::string here = absl::StrCat(place, ", question ", i + 1);
      const auto row = RowOf((**questions)[i], title, **context);
      if (row.ok()) {
        Take(*row, here);
      } else {
        Refuse(row.status(), here);
      }
    }
  }

  void Take(const JsonValue& row, const std::string& place) {
    const absl::StatusOr<bool> taken = on_row_(row, absl::StrCat(name_, place));
    if (!taken.ok()) return Refuse(taken.status(), place);
    ++rows_;
    wants_more_ = *taken;
  }

  void Refuse(const absl::Status& error, const std::string& place) {
    ++rows_;
    const absl::Status placed = Annotate(error, absl::StrCat(path_, place));
    if (absl::IsInvalidArgument(error)) {
      bad_.Add(placed);
      wants_more_ = !bad_.is_full();
    } else {
      error_ = placed;
      wants_more_ = false;
    }
  }

  const std::string& path_;
  const std::string name_;
  BadRowList bad_;
  const OnRow on_row_;
  int64_t rows_ = 0;
  bool wants_more_ = true;
  absl::Status error_;
};

}  // namespace

bool IsSquadFileName(const std::string& path) { return absl::EndsWith(path, ".json"); }

absl::Status ForEachSquadRow(const std::string& path, const RowOptions& options, OnRow on_row) {
  if (!options.columns.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the names in a SQuAD file are fixed: leave dataset_columns out, or give rows (.jsonl)"));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const absl::StatusOr<JsonValue> root = ParseJson(text);
  if (!root.ok()) return Annotate(root.status(), path);
  const JsonValue* data = root->Find("data");
  if (data == nullptr || data->kind != JsonValue::Kind::kArray) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": a .json file of questions is SQuAD's: an object whose 'data' is the list of articles; "
                     "rows, one a line, are in files named .jsonl"));
  }
  return SquadReader(path, options, on_row).Read(data->items);
}

}  // namespace distill
