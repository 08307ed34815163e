#include "libdistill/data/jsonl_rows.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/bad_row_list.h"
#include "libdistill/data/other_formats.h"
#include "libdistill/data/row_progress.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

constexpr int64_t kPlacesShown = 5;

std::string BaseName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// A file is itself.
absl::StatusOr<std::vector<std::string>> FindJsonlFiles(const std::string& path, const std::string& split) {
  DISTILL_RETURN_IF_ERROR(RequireLocalPath(path));
  if (!FolderExists(path)) {
    DISTILL_RETURN_IF_ERROR(CheckIsJsonLines(path));
    return std::vector<std::string>{path};
  }
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> names, ListFiles(path, split, ".jsonl"));
  if (names.empty()) {
    DISTILL_RETURN_IF_ERROR(CheckIsNoOtherFolder(path));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> others, ListFiles(path, "", ""));
    return absl::NotFoundError(absl::StrCat(path, ": no file matches ", split, "*.jsonl; the folder holds ",
                                            others.empty() ? "no files" : absl::StrJoin(others, ", "),
                                            ": name the split that a file's name begins with, or the file itself"));
  }
  for (std::string& name : names) {
    name = JoinPath(path, name);
    DISTILL_RETURN_IF_ERROR(CheckIsJsonLines(name));
  }
  return names;
}

int64_t BytesOf(const std::vector<std::string>& files) {
  int64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code unknown;  // of a pipe, say, which has no size
    const std::uintmax_t size = std::filesystem::file_size(file, unknown);
    if (!unknown) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

using OnRow = absl::FunctionRef<absl::StatusOr<bool>(const JsonValue& row, const std::string& place)>;

// Hands over the next row: whether another one is wanted, or what is wrong with this one, and where. Nothing at the end
// of the file.
std::optional<absl::StatusOr<bool>> HandOver(const std::string& file, JsonlReader& reader, OnRow on_row) {
  const absl::StatusOr<std::optional<JsonlRow>> row = reader.Next();
  if (!row.ok()) return row.status();
  if (!*row) return std::nullopt;
  absl::StatusOr<bool> wants_more = on_row((*row)->value, absl::StrCat(BaseName(file), ":", (*row)->line));
  if (!wants_more.ok()) wants_more = Annotate(wants_more.status(), absl::StrCat(file, ":", (*row)->line));
  return wants_more;
}

}  // namespace

absl::Status ForEachRow(const std::string& path, const std::string& split, const RowOptions& options, OnRow on_row) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> files, FindJsonlFiles(path, split));
  BadRowList bad(path, options);
  RowProgress progress(BaseName(path), BytesOf(files));
  int64_t rows = 0, bytes = 0;
  for (const std::string& file : files) {
    DISTILL_ASSIGN_OR_RETURN(JsonlReader reader, JsonlReader::Open(file));
    while (const std::optional<absl::StatusOr<bool>> wants_more = HandOver(file, reader, on_row)) {
      progress.Tell(++rows, bytes + reader.bytes_read());
      if (absl::IsInvalidArgument(wants_more->status())) {
        bad.Add(wants_more->status());
      } else {
        DISTILL_RETURN_IF_ERROR(wants_more->status());
      }
      if (wants_more->ok() ? !**wants_more : bad.is_full()) return bad.Finish(rows);
    }
    bytes += reader.bytes_read();
  }
  return bad.Finish(rows);
}

absl::Status CheckRowFiles(const std::string& path, const std::string& split) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> files, FindJsonlFiles(path, split));
  for (const std::string& file : files) DISTILL_RETURN_IF_ERROR(JsonlReader::Open(file).status());
  return absl::OkStatus();
}

absl::StatusOr<const JsonValue*> FieldOf(const JsonValue& row, const std::string& name) {
  if (row.kind != JsonValue::Kind::kObject) {
    return absl::InvalidArgumentError(
        absl::StrCat("the row is not a JSON object; JSON Lines has one sample a line, {\"", name, "\": ...}"));
  }
  if (const JsonValue* value = row.Find(name)) return value;
  const std::string there = absl::StrJoin(
      row.members, ", ", [](std::string* out, const auto& member) { absl::StrAppend(out, "'", member.first, "'"); });
  return absl::InvalidArgumentError(absl::StrCat("the field '", name, "' is missing; the row has ",
                                                 there.empty() ? "none" : there, ": name the column, or add it"));
}

absl::StatusOr<std::string> TextOf(const JsonValue& row, const std::string& name) {
  DISTILL_ASSIGN_OR_RETURN(const JsonValue* value, FieldOf(row, name));
  if (value->kind == JsonValue::Kind::kString) return value->text;
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not a string; write the text itself, in quotes"));
}

absl::StatusOr<int64_t> WholeNumberOf(const JsonValue& value, const std::string& what) {
  constexpr double kMost = 9007199254740992;  // 2^53: beyond, doubles leave whole numbers out
  if (value.kind == JsonValue::Kind::kNumber && value.number >= 0 && value.number <= kMost &&
      std::floor(value.number) == value.number) {
    return static_cast<int64_t>(value.number);
  }
  return absl::InvalidArgumentError(absl::StrCat("'", what, "' is not a whole number from 0"));
}

void CountedRows::Add(const std::string& place) {
  if (++count <= kPlacesShown) places.push_back(place);
}

std::string CountedRows::Describe(absl::string_view reason) const {
  if (count == 0) return "";
  return absl::StrCat(", ", reason, " ", count, " (first: ", absl::StrJoin(places, ", "), ")");
}

absl::Status CheckLimits(int64_t max_length, int64_t least, int64_t num_samples) {
  if (max_length < least) {
    return absl::InvalidArgumentError(absl::StrCat("max_length is ", max_length, ": at least ", least, " is needed"));
  }
  if (num_samples < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_samples is ", num_samples, ": it cannot be negative; 0 takes all rows"));
  }
  return absl::OkStatus();
}

}  // namespace distill
