#include "libdistill/store/readable_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/content_hash.h"

namespace distill {
namespace {

class MemoryFile : public ReadableFile {
 public:
  MemoryFile(std::string path, std::string bytes)
      : path_(std::move(path)),
        bytes_(std::move(bytes)),
        version_(ContentHash().Add(absl::string_view(bytes_)).Hex()) {}

  const std::string& path() const override { return path_; }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  const std::string& version() const override { return version_; }
  absl::Status ReadAt(int64_t offset, absl::Span<char> out) const override {
    DISTILL_RETURN_IF_ERROR(CheckRange(*this, offset, out.size()));
    std::copy_n(bytes_.data() + offset, out.size(), out.data());
    return absl::OkStatus();
  }

 private:
  const std::string path_, bytes_, version_;
};

}  // namespace

std::shared_ptr<const ReadableFile> MakeMemoryFile(std::string path, std::string bytes) {
  return std::make_shared<MemoryFile>(std::move(path), std::move(bytes));
}

absl::Status CheckRange(const ReadableFile& file, int64_t offset, size_t size) {
  if (offset >= 0 && offset <= file.size() && size <= static_cast<size_t>(file.size() - offset)) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError(
      absl::StrCat(file.path(), ": bytes ", offset, " to ", offset, " + ", size, " of a file of ", file.size()));
}

absl::StatusOr<std::string> ReadBeginning(const ReadableFile& file, int64_t most) {
  std::string bytes(static_cast<size_t>(std::min(most, file.size())), '\0');
  DISTILL_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(bytes)));
  return bytes;
}

absl::StatusOr<std::string> ReadAll(const ReadableFile& file) {
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  DISTILL_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(&bytes[0], bytes.size())));
  return bytes;
}

}  // namespace distill
