// How the records of a run come back from its files (docs/formats.md, "Metrics").
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/curve.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

constexpr char kCsvHead[] = "step,name,value";
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

struct LineOfRecord {
  int64_t step = 0;
  NamedValues values;
};

std::optional<LineOfRecord> ParseJsonLine(absl::string_view line) {
  const auto json = nlohmann::ordered_json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  LineOfRecord record{json["step"].get<int64_t>(), {}};
  for (const auto& [name, value] : json.items()) {
    if (name == "step" || !(value.is_number() || value.is_null())) continue;
    record.values.emplace_back(name, value.is_null() ? kNoNumber : value.get<double>());
  }
  return record;
}

std::optional<LineOfRecord> ParseCsvLine(absl::string_view line) {
  const std::vector<std::string> cells = absl::StrSplit(line, ',');
  LineOfRecord record;
  double value = 0;
  if (cells.size() != 3 || !absl::SimpleAtoi(cells[0], &record.step) || !absl::SimpleAtod(cells[2], &value)) {
    return std::nullopt;
  }
  record.values.emplace_back(cells[1], value);
  return record;
}

template <typename Parse>
absl::StatusOr<RunCurves> ParseLines(absl::string_view text, const std::string& path, absl::string_view head,
                                     int64_t last_step, size_t most_points, const Parse& parse) {
  RunCurves run{.name = LastName(ParentFolder(path)), .most_points = most_points};
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty() || (number == 1 && line == head)) continue;
    const std::optional<LineOfRecord> record = parse(line);
    const bool is_cut = line.data() + line.size() == text.data() + text.size();
    if (!record.has_value() && !is_cut) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ", line ", number, ": this is no record of a run (docs/formats.md, \"Metrics\")"));
    }
    if (record.has_value() && record->step <= last_step) run.Add(record->step, record->values);
  }
  return run;
}

bool IsFileOfRecords(const std::string& path) { return absl::EndsWith(path, ".jsonl") || absl::EndsWith(path, ".csv"); }

// `path` itself, or the file of records in it.
absl::StatusOr<std::string> FileOfRun(const std::string& path) {
  if (IsFileOfRecords(path)) return path;
  for (const char* name : {"metrics.jsonl", "metrics.csv"}) {
    if (FileExists(JoinPath(path, name))) return JoinPath(path, name);
  }
  return absl::NotFoundError(
      absl::StrCat(path, ": no metrics.jsonl or metrics.csv is there; give the output_dir of a run, or such a file"));
}

}  // namespace

absl::StatusOr<RunCurves> ParseRecords(absl::string_view text, const std::string& path, int64_t last_step,
                                       size_t most_points) {
  return absl::EndsWith(path, ".csv") ? ParseLines(text, path, kCsvHead, last_step, most_points, ParseCsvLine)
                                      : ParseLines(text, path, "", last_step, most_points, ParseJsonLine);
}

std::string FolderOfRun(const std::string& path) { return IsFileOfRecords(path) ? ParentFolder(path) : path; }

absl::StatusOr<RunCurves> ReadRun(const std::string& path) {
  constexpr size_t kAll = std::numeric_limits<size_t>::max();
  constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();
  DISTILL_ASSIGN_OR_RETURN(const std::string file, FileOfRun(path));
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  DISTILL_ASSIGN_OR_RETURN(RunCurves run, ParseRecords(text, file, kToTheEnd, kAll));
  if (run.curves.empty()) return absl::InvalidArgumentError(absl::StrCat(file, " has no record yet"));
  return run;
}

}  // namespace distill
