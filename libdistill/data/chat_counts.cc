#include "libdistill/data/chat_counts.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/data/rows_read_json.h"

namespace distill {
namespace {

using Json = nlohmann::ordered_json;

Json Write(const AnswerNotes& notes) {
  return {{"rewritten", WriteCountedRows(notes.rewritten)},
          {"without_reasoning", WriteCountedRows(notes.without_reasoning)},
          {"with_added_end", WriteCountedRows(notes.with_added_end)},
          {"without_end", WriteCountedRows(notes.without_end)},
          {"added_end", notes.added_end}};
}

AnswerNotes ReadNotes(const Json& json) {
  return {.rewritten = ReadCountedRows(json.at("rewritten")),
          .without_reasoning = ReadCountedRows(json.at("without_reasoning")),
          .with_added_end = ReadCountedRows(json.at("with_added_end")),
          .without_end = ReadCountedRows(json.at("without_end")),
          .added_end = json.at("added_end")};
}

}  // namespace

std::string ChatCounts::Describe(int64_t max_length) const {
  return absl::StrCat("rows ", rows, ", used ", used, cut_before_answer.Describe("cut before the answer"),
                      cut == 0 ? "" : absl::StrCat(", cut to max_length ", max_length, " ", cut), notes.Describe(),
                      unread.empty() ? "" : absl::StrCat("; fields that are not read: ", absl::StrJoin(unread, ", ")));
}

std::string ToJson(const ChatProgress& progress) {
  const ChatCounts& counts = progress.counts;
  Json json;
  WriteRowsRead(progress.rows, json);
  json["good_rows"] = counts.rows;
  json["used"] = counts.used;
  json["cut"] = counts.cut;
  json["cut_before_answer"] = WriteCountedRows(counts.cut_before_answer);
  json["notes"] = Write(counts.notes);
  json["unread"] = counts.unread;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<ChatProgress> ChatProgressOf(absl::string_view text) {
  try {
    const Json json = Json::parse(text);
    return ChatProgress{.rows = ReadRowsRead(json),
                        .counts = {.rows = json.at("good_rows"),
                                   .used = json.at("used"),
                                   .cut = json.at("cut"),
                                   .cut_before_answer = ReadCountedRows(json.at("cut_before_answer")),
                                   .notes = ReadNotes(json.at("notes")),
                                   .unread = json.at("unread")}};
  } catch (const Json::exception& error) {
    return absl::DataLossError(absl::StrCat("its notes make no sense: ", error.what()));
  }
}

}  // namespace distill
