// Parts of a file, without a copy where that can be: a local file is mapped, and of another one the bytes are fetched.
//
//   DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
//   DISTILL_ASSIGN_OR_RETURN(const FileSlice magic, file->Read(0, 8));
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/readable_file.h"

namespace distill {

struct FileSlice {
  absl::string_view bytes;
  std::shared_ptr<const void> owner;  // keeps them alive
};

// ResourceExhausted where the system has no memory for them. Their values are undefined.
[[nodiscard]] absl::StatusOr<std::shared_ptr<char>> AllocateBytes(int64_t size);

class FileBytes {
 public:
  // Errors of OpenFile; InvalidArgument for a pointer of Git LFS. A local file must not be cut while it is mapped.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const FileBytes>> Open(const std::string& path);
  // Reads each part through the file, local or not.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const FileBytes>> Of(std::shared_ptr<const ReadableFile> file);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }

  // OutOfRange where they do not all lie in the file; other errors are those of ReadableFile::ReadAt. Any thread.
  [[nodiscard]] absl::StatusOr<FileSlice> Read(int64_t offset, int64_t size) const;
  // Lets go of the memory of those pages of the mapping that lie within, until they are read again. Nothing where
  // nothing is mapped.
  void Forget(int64_t offset, int64_t size) const;

 private:
  class Mapping;
  FileBytes(std::string path, int64_t size);
  static absl::StatusOr<std::shared_ptr<const FileBytes>> Checked(std::shared_ptr<const FileBytes> file);

  const std::string path_;
  const int64_t size_;
  std::shared_ptr<const Mapping> mapping_;
  std::shared_ptr<const ReadableFile> file_;   // where nothing is mapped
  std::shared_ptr<const ReadableFile> small_;  // the same, for small parts: with their neighbours in one request
};

}  // namespace distill
