#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/metrics/record_file.h"
#include "libdistill/store/durable_files.h"

namespace distill {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(30);
constexpr absl::Duration kFlushPatience = absl::Seconds(10);

class RecordObject : public RecordFile {
 public:
  static absl::StatusOr<std::unique_ptr<RecordFile>> Make(const std::string& path, const std::string& text) {
    DISTILL_RETURN_IF_ERROR(WriteWholeFile(path, text));
    std::unique_ptr<RecordObject> file(new RecordObject(path, text));
    DISTILL_ASSIGN_OR_RETURN(file->writer_, StartThread("metrics to S3", [object = file.get()] { object->Write(); }));
    return file;
  }

  ~RecordObject() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changes_.notify_all();
    if (writer_.joinable()) writer_.join();
    if (stored_bytes_ < text_.size()) {
      LogWarning(absl::StrCat(path_, " lacks the last ", text_.size() - stored_bytes_,
                              " bytes of the run's records, which could not be written"));
    }
  }

  void Flush() override {
    std::unique_lock lock(mutex_);
    const size_t wanted = text_.size();
    is_asked_ = true;
    changes_.notify_all();
    changes_.wait_for(lock, absl::ToChronoMilliseconds(kFlushPatience),
                      [&] { return stored_bytes_ >= wanted || has_failed_; });
  }

 protected:
  void Add(const std::string& record) override {
    const std::lock_guard lock(mutex_);
    text_ += record;
  }

 private:
  RecordObject(std::string path, std::string text)
      : path_(std::move(path)), text_(std::move(text)), stored_bytes_(text_.size()) {}

  // The thread's.
  void Write() {
    std::unique_lock lock(mutex_);
    for (bool is_last = false; !is_last;) {
      changes_.wait_for(lock, absl::ToChronoMilliseconds(kPeriod), [this] { return is_ending_ || is_asked_; });
      is_last = is_ending_;
      is_asked_ = false;
      if (stored_bytes_ == text_.size()) continue;
      const std::string text = text_;
      lock.unlock();
      const absl::Status written = WriteWholeFile(path_, text);
      lock.lock();
      if (written.ok()) stored_bytes_ = text.size();
      Note(written);
      changes_.notify_all();
    }
  }

  void Note(const absl::Status& written) {
    if (!written.ok() && !has_failed_) {
      LogWarning(absl::StrCat(path_, ": ", written.message(),
                              "; training continues, the records are kept, and this is tried again every ",
                              absl::FormatDuration(kPeriod)));
    }
    if (written.ok() && has_failed_) LogWarning(absl::StrCat(path_, " is written again, with all its records"));
    has_failed_ = !written.ok();
  }

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable changes_;
  std::string text_;     // all of the file
  size_t stored_bytes_;  // of it
  bool is_asked_ = false, is_ending_ = false, has_failed_ = false;
  std::thread writer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFile>> MakeRecordObject(const std::string& path, const std::string& text) {
  return RecordObject::Make(path, text);
}

}  // namespace distill
