// A file of records that a run adds to. A disk that is full or gone costs no run: what cannot be written waits in
// memory, with a warning, and is written with a later record.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

class RecordFile {
 public:
  // A file of lines. With done_steps above 0 the lines of steps up to that one stay and the others go; else the file
  // starts anew. `step_of`: the step of a line; none for what is no record, a line cut short by a crash, say. `head`:
  // the first line.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RecordFile>> Open(
      const std::string& path, int64_t done_steps,
      absl::FunctionRef<std::optional<int64_t>(absl::string_view line)> step_of, const std::string& head = "");

  // A new file that starts with `head`, as it does again when it has to be made anew.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RecordFile>> Create(const std::string& path,
                                                                          const std::string& head);

  // Tries what waits once more, and warns of what is lost then.
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // A whole record, on disk (but not synced) on return, or kept: at most kMaxWaitingBytes, the oldest go first. The
  // file never holds a part of one. A file that was removed or moved is made anew, and its folder too. A record of
  // step done_steps that Open has kept is not written again: a run that ends while it publishes its model makes the
  // last evaluation again when it is resumed.
  void Append(const std::string& record);

 private:
  static constexpr int64_t kMaxWaitingBytes = int64_t{8} << 20;

  RecordFile(std::string path, std::string head, int fd) : path_(std::move(path)), head_(std::move(head)), fd_(fd) {}
  bool IsInPlace() const;
  absl::Status MakeAnew();
  absl::Status WriteWhole(const std::string& record);
  absl::Status WriteWaiting();
  void DropOldest();

  std::string path_;
  std::string head_;
  std::string of_last_step_;  // lines that Open has kept
  int fd_;
  int64_t whole_bytes_ = -1;  // what the file is to be cut to before the next record; -1: it ends with a whole one
  std::deque<std::string> waiting_;
  int64_t waiting_bytes_ = 0;
  int64_t dropped_ = 0;
  bool has_failed_ = false;  // since the last record that was written
};

}  // namespace distill
