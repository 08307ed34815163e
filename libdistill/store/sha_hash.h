// The hashes by which git and the hub name files: SHA-256 of what goes by LFS, git's SHA-1 of the rest.
//
//   ShaHash hash(ShaKind::kSha256);
//   hash.Add(bytes);
//   LogInfo(hash.Hex());
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/readable_file.h"

namespace distill {

enum class ShaKind { kSha1, kSha256 };

class ShaHash {
 public:
  explicit ShaHash(ShaKind kind);
  ~ShaHash();
  ShaHash(const ShaHash&) = delete;
  ShaHash& operator=(const ShaHash&) = delete;

  ShaHash& Add(absl::string_view bytes);
  // Of all that was added, in lower case; once, at the end.
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of the whole file, which is read a part at a time. Blocks; errors of ReadableFile::ReadAt.
[[nodiscard]] absl::StatusOr<std::string> Sha256OfFile(std::shared_ptr<const ReadableFile> file);

// What git hashes before the bytes of a file.
std::string GitHeaderOf(int64_t file_bytes);
// What `git hash-object` says of a file with these bytes.
std::string GitHashOf(absl::string_view bytes);

}  // namespace distill
