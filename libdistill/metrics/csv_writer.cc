#include "libdistill/metrics/csv_writer.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// None for the head and for a line that a crash cut short.
std::optional<int64_t> StepOf(absl::string_view line) {
  const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
  int64_t step = 0;
  double value = 0;
  if (cells.size() != 3 || !absl::SimpleAtoi(cells[0], &step) || !absl::SimpleAtod(cells[2], &value)) {
    return std::nullopt;
  }
  return step;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CsvWriter>> CsvWriter::Open(const std::string& path, int64_t done_steps) {
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<RecordFile> file,
                           RecordFile::Open(path, done_steps, StepOf, "step,name,value\n"));
  return std::unique_ptr<CsvWriter>(new CsvWriter(std::move(file)));
}

absl::Status CsvWriter::Write(int64_t step, const NamedValues& values) {
  std::string lines;
  for (const auto& [name, value] : values) absl::StrAppend(&lines, step, ",", name, ",", NumberText(value), "\n");
  file_->Append(lines);
  return absl::OkStatus();
}

}  // namespace distill
