#include "libdistill/metrics/record_file.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

absl::Status FileError(const std::string& path, const char* action) {
  return absl::InternalError(absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<RecordFile> RecordFile::Open(const std::string& path, int64_t done_steps,
                                            absl::FunctionRef<std::optional<int64_t>(absl::string_view line)> step_of,
                                            const std::string& head) {
  std::string kept = head;
  if (done_steps > 0 && FileExists(path)) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::optional<int64_t> step = step_of(line);
      if (step.has_value() && *step <= done_steps) absl::StrAppend(&kept, line, "\n");
    }
  }
  const std::string temporary = path + ".tmp";
  FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return FileError(temporary, "create");
  RecordFile records(path, file);
  if (std::fwrite(kept.data(), 1, kept.size(), file) != kept.size() || std::fflush(file) != 0) {
    return FileError(temporary, "write");
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return FileError(path, "replace");
  return records;
}

absl::Status RecordFile::Append(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() && std::fflush(file_.get()) == 0) {
    return absl::OkStatus();
  }
  return FileError(path_, "write");
}

}  // namespace distill
