#include "libdistill/metrics/record_file.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

absl::StatusOr<std::unique_ptr<RecordFile>> Make(const std::string& path, const std::string& text,
                                                 const std::string& head) {
  return IsRemote(path) ? MakeRecordObject(path, text) : MakeLocalRecordFile(path, text, head);
}

// Empty where there is no such file.
absl::StatusOr<std::string> ReadIfThere(const std::string& path) {
  if (!IsRemote(path) && !FileExists(path)) return "";
  absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return "";
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Open(
    const std::string& path, int64_t done_steps,
    absl::FunctionRef<std::optional<int64_t>(absl::string_view line)> step_of, const std::string& head) {
  std::string kept = head, of_last_step;
  if (done_steps > 0) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadIfThere(path));
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::optional<int64_t> step = step_of(line);
      if (!step.has_value() || *step > done_steps) continue;
      absl::StrAppend(&kept, line, "\n");
      if (*step == done_steps) absl::StrAppend(&of_last_step, line, "\n");
    }
  }
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<RecordFile> file, Make(path, kept, head));
  file->of_last_step_ = std::move(of_last_step);
  return file;
}

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Create(const std::string& path, const std::string& head) {
  return Make(path, head, head);
}

void RecordFile::Append(const std::string& record, absl::string_view known_by) {
  if (!absl::StrContains(of_last_step_, known_by)) Add(record);
}

}  // namespace distill
