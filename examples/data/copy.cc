#include "examples/data/copy.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/byte_stream.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Hands over the file's bytes; their hash.
absl::StatusOr<std::string> ForEachPart(const std::string& path, const auto& on_bytes) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const ReadableFile> file, OpenFile(path));
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> bytes, StreamFile(std::move(file)));
  ContentHash hash;
  std::string buffer(kBufferBytes, '\0');
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(const size_t size, bytes->Read(absl::MakeSpan(buffer)));
    if (size == 0) return hash.Hex();
    hash.Add(buffer.data(), size);
    DISTILL_RETURN_IF_ERROR(on_bytes(absl::string_view(buffer).substr(0, size)));
  }
}

absl::Status CopyFile(const std::string& from, const std::string& to, bool verify) {
  if (!IsRemote(to)) {
    const size_t slash = to.rfind('/');
    if (slash != std::string::npos && slash > 0) DISTILL_RETURN_IF_ERROR(MakeFolder(to.substr(0, slash)));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> writer, CreateFile(to));
  int64_t size = 0;
  DISTILL_ASSIGN_OR_RETURN(const std::string hash, ForEachPart(from, [&](absl::string_view bytes) {
                             size += static_cast<int64_t>(bytes.size());
                             return writer->Append(bytes);
                           }));
  DISTILL_RETURN_IF_ERROR(writer->Commit());
  if (verify) {
    DISTILL_ASSIGN_OR_RETURN(const std::string written,
                             ForEachPart(to, [](absl::string_view) { return absl::OkStatus(); }));
    if (written != hash) {
      return absl::DataLossError(absl::StrCat(to, ": what was written is not what ", from, " has; copy it again"));
    }
  }
  std::printf("%s -> %s: %lld bytes%s\n", from.c_str(), to.c_str(), static_cast<long long>(size),
              verify ? ", compared" : "");
  return absl::OkStatus();
}

// Keys of objects may have parts that are no names of files: "data//x", "data/../x".
absl::Status CheckName(const std::string& folder, const std::string& name) {
  if (!name.empty() && name != "." && name != "..") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " holds objects whose keys have the part '", name,
                   "', which no file or folder can be called: give them other keys, or copy them one by one"));
}

absl::Status CopyFolder(const std::string& from, const std::string& to, bool verify) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(from));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, store->List(from));
  for (const FolderEntry& entry : entries) {
    DISTILL_RETURN_IF_ERROR(CheckName(from, entry.name));
    const std::string source = JoinPath(from, entry.name), target = JoinPath(to, entry.name);
    DISTILL_RETURN_IF_ERROR(entry.is_folder ? CopyFolder(source, target, verify) : CopyFile(source, target, verify));
  }
  return absl::OkStatus();
}

std::string BaseName(std::string path) {
  while (absl::EndsWith(path, "/")) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

absl::Status CopyFiles(const std::string& from, const std::string& to, bool verify) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(from));
  DISTILL_ASSIGN_OR_RETURN(const PathKind kind, store->KindOf(from));
  const std::string target = absl::EndsWith(to, "/") ? to + BaseName(from) : to;
  if (kind == PathKind::kFile) return CopyFile(from, target, verify);
  if (kind == PathKind::kFolder) return CopyFolder(from, target, verify);
  return absl::NotFoundError(absl::StrCat(from, ": no such file or folder"));
}

}  // namespace distill
