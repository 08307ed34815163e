#include "libdistill/metrics/jsonl_writer.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

absl::Status FileError(const std::string& path, const char* action) {
  return absl::InternalError(absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(errno)));
}

// The records of steps that count; a line cut short by a crash does not.
std::string KeepUntil(const std::string& text, int64_t done_steps) {
  std::string kept;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const auto record = nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) continue;
    if (record["step"].get<int64_t>() <= done_steps) absl::StrAppend(&kept, line, "\n");
  }
  return kept;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JsonlWriter>> JsonlWriter::Open(const std::string& path, int64_t done_steps) {
  std::string kept;
  if (done_steps > 0 && FileExists(path)) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    kept = KeepUntil(text, done_steps);
  }
  const std::string temporary = path + ".tmp";
  FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return FileError(temporary, "create");
  std::unique_ptr<JsonlWriter> writer(new JsonlWriter(path, file));
  if (std::fwrite(kept.data(), 1, kept.size(), file) != kept.size() || std::fflush(file) != 0) {
    return FileError(temporary, "write");
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return FileError(path, "replace");
  return writer;
}

absl::Status JsonlWriter::Write(int64_t step, const NamedValues& values) {
  nlohmann::ordered_json record;
  record["step"] = step;
  for (const auto& [name, value] : values) record[name] = value;
  const std::string line = record.dump() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || std::fflush(file_.get()) != 0) {
    return FileError(path_, "write");
  }
  return absl::OkStatus();
}

}  // namespace distill
