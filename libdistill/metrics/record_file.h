// A file of records that a run adds to, in any store. A disk that is full or gone, or a store that does not answer,
// costs no run: what cannot be written waits in memory, with a warning, and is written with a later record.
//
// Objects of S3 cannot be added to: there the whole file is kept in memory, and put by a thread every 30 s where there
// is something new, at Flush and at the end.
#pragma once

#include <cstdint>
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
  virtual ~RecordFile() = default;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // A whole record, on a local disk (but not synced) on return, or kept: at most 8 MiB that wait for a disk, the oldest
  // go first. The file never holds a part of one. A file that was removed or moved is made anew, and its folder too. A
  // record of step done_steps that Open has kept is not written again: a run that ends while it publishes its model
  // makes the last evaluation again when it is resumed. `known_by`: the part of it by which it is known again.
  void Append(const std::string& record, absl::string_view known_by);
  void Append(const std::string& record) { Append(record, record); }

  // What was appended is to be stored now, for a resumed run; waits for that for a few seconds.
  virtual void Flush() = 0;

 protected:
  RecordFile() = default;
  virtual void Add(const std::string& record) = 0;

 private:
  std::string of_last_step_;  // lines that Open has kept
};

// Of each kind of store. The file is `text` now; `head`: what one that has to be made anew starts with.
[[nodiscard]] absl::StatusOr<std::unique_ptr<RecordFile>> MakeLocalRecordFile(const std::string& path,
                                                                              const std::string& text,
                                                                              const std::string& head);
[[nodiscard]] absl::StatusOr<std::unique_ptr<RecordFile>> MakeRecordObject(const std::string& path,
                                                                           const std::string& text);

}  // namespace distill
