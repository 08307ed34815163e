// A local file as memory: its pages are read when they are touched, and all processes of a host share them.
//
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open("00000.tokens"));
//   const absl::string_view bytes = file->bytes();
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

class MappedFile {
 public:
  // InvalidArgument: no local path, or not a file. NotFound, PermissionDenied. Who cuts the file while it is mapped
  // ends the processes that read behind its new end; to replace one, rename another over it.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // They begin at a page's begin. Any thread.
  absl::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile(const char* data, size_t size) : data_(data), size_(size) {}
  const char* const data_;
  const size_t size_;
};

}  // namespace distill
