#include "libdistill/data/chat_counts.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace distill {
namespace {

using Json = nlohmann::ordered_json;

Json Write(const CountedRows& rows) { return {{"count", rows.count}, {"places", rows.places}}; }

CountedRows ReadRows(const Json& json) { return {json.at("count"), json.at("places")}; }

Json Write(const AnswerNotes& notes) {
  return {{"rewritten", Write(notes.rewritten)},
          {"without_reasoning", Write(notes.without_reasoning)},
          {"with_added_end", Write(notes.with_added_end)},
          {"without_end", Write(notes.without_end)},
          {"added_end", notes.added_end}};
}

AnswerNotes ReadNotes(const Json& json) {
  return {.rewritten = ReadRows(json.at("rewritten")),
          .without_reasoning = ReadRows(json.at("without_reasoning")),
          .with_added_end = ReadRows(json.at("with_added_end")),
          .without_end = ReadRows(json.at("without_end")),
          .added_end = json.at("added_end")};
}

}  // namespace

std::string ChatCounts::Describe(int64_t max_length) const {
  return absl::StrCat("rows ", rows, ", used ", used, cut_before_answer.Describe("cut before the answer"),
                      cut == 0 ? "" : absl::StrCat(", cut to max_length ", max_length, " ", cut), notes.Describe(),
                      unread.empty() ? "" : absl::StrCat("; fields that are not read: ", absl::StrJoin(unread, ", ")));
}

std::string ToJson(const ChatProgress& progress) {
  const RowsRead& rows = progress.rows;
  const ChatCounts& counts = progress.counts;
  const Json json = {{"chunks", rows.chunks},
                     {"rows", rows.rows},
                     {"bad_rows", rows.bad.count},
                     {"first_bad_rows", rows.bad.first},
                     {"good_rows", counts.rows},
                     {"used", counts.used},
                     {"cut", counts.cut},
                     {"cut_before_answer", Write(counts.cut_before_answer)},
                     {"notes", Write(counts.notes)},
                     {"unread", counts.unread}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<ChatProgress> ChatProgressOf(absl::string_view text) {
  try {
    const Json json = Json::parse(text);
    return ChatProgress{.rows = {.chunks = json.at("chunks"),
                                 .rows = json.at("rows"),
                                 .bad = {json.at("bad_rows"), json.at("first_bad_rows")}},
                        .counts = {.rows = json.at("good_rows"),
                                   .used = json.at("used"),
                                   .cut = json.at("cut"),
                                   .cut_before_answer = ReadRows(json.at("cut_before_answer")),
                                   .notes = ReadNotes(json.at("notes")),
                                   .unread = json.at("unread")}};
  } catch (const Json::exception& error) {
    return absl::DataLossError(absl::StrCat("its notes make no sense: ", error.what()));
  }
}

}  // namespace distill
