// A file of records, a line each, of which an interrupted run's later ones are dropped when it is resumed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

class RecordFile {
 public:
  // With done_steps above 0 the lines of steps up to that one stay and the others go; else the file starts anew.
  // `step_of`: the step of a line; none for what is no record, a line cut short by a crash, say. `head`: the first
  // line.
  [[nodiscard]] static absl::StatusOr<RecordFile> Open(
      const std::string& path, int64_t done_steps,
      absl::FunctionRef<std::optional<int64_t>(absl::string_view line)> step_of, const std::string& head = "");

  // On disk (but not synced) on return.
  [[nodiscard]] absl::Status Append(const std::string& text);

 private:
  struct Close {
    void operator()(FILE* file) const { std::fclose(file); }
  };
  RecordFile(std::string path, FILE* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<FILE, Close> file_;
};

}  // namespace distill
