#include "libdistill/store/index_file.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_bytes.h"
#include "libdistill/store/file_lock.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

// A file is this header and both lists, 8 bytes a number (docs/formats.md, "Indices").
struct Header {
  char letters[8] = {};
  uint64_t file_bytes = 0;
  uint64_t first = 0;
  uint64_t second = 0;
  uint64_t hash = 0;  // of all that follows
};
static_assert(sizeof(Header) == 40);

absl::string_view BytesOf(absl::Span<const uint64_t> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(uint64_t)};
}

std::string NameOf(const ReadableFile& file, const IndexKind& kind, const std::string& options) {
  const std::string path = IsRemote(file.path()) ? file.path() : CanonicalPath(file.path());
  const std::string name = path.substr(path.find_last_of('/') + 1);
  const std::string of_options = options.empty() ? "" : absl::StrCat("\n", options);
  return absl::StrFormat("%s-%016x%s", name.substr(0, 100),
                         HashOfBytes(absl::StrCat(path, "\n", file.size(), "\n", file.version(), of_options)),
                         kind.ending);
}

IndexLists ListsOf(std::shared_ptr<const void> owner, absl::Span<const uint64_t> first,
                   absl::Span<const uint64_t> second) {
  const uint64_t hash = HashOfBytes(absl::StrCat(HashOfBytes(BytesOf(first)), " ", HashOfBytes(BytesOf(second))));
  return {std::move(owner), first, second, hash, 0};
}

absl::Status Save(const IndexLists& lists, const IndexKind& kind, int64_t file_bytes, const std::string& path) {
  Header header;
  std::memcpy(header.letters, kind.letters, sizeof(header.letters));
  header.file_bytes = static_cast<uint64_t>(file_bytes);
  header.first = lists.first.size();
  header.second = lists.second.size();
  header.hash = lists.hash;
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> file, CreateFile(path));
  DISTILL_RETURN_IF_ERROR(file->Append({reinterpret_cast<const char*>(&header), sizeof(header)}));
  DISTILL_RETURN_IF_ERROR(file->Append(BytesOf(lists.first)));
  DISTILL_RETURN_IF_ERROR(file->Append(BytesOf(lists.second)));
  return file->Commit();
}

absl::StatusOr<IndexLists> Load(const IndexKind& kind, int64_t file_bytes, const std::string& path) {
  const absl::Status damaged = absl::DataLossError(absl::StrCat(path, ": is damaged"));
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  const auto size = static_cast<uint64_t>(file->size());
  Header header;
  if (size < sizeof(header)) return damaged;
  DISTILL_ASSIGN_OR_RETURN(const FileSlice slice, file->Read(0, file->size()));
  std::memcpy(&header, slice.bytes.data(), sizeof(header));
  if (std::memcmp(header.letters, kind.letters, sizeof(header.letters)) != 0 || header.first > size / 8 ||
      header.second > size / 8 || sizeof(header) + 8 * (header.first + header.second) != size ||
      header.file_bytes != static_cast<uint64_t>(file_bytes)) {
    return damaged;
  }
  const auto* values = reinterpret_cast<const uint64_t*>(slice.bytes.data() + sizeof(header));
  IndexLists lists = ListsOf(slice.owner, {values, header.first}, {values + header.first, header.second});
  if (lists.hash != header.hash) return damaged;
  return lists;
}

}  // namespace

absl::StatusOr<IndexLists> OpenIndex(const ReadableFile& file, const IndexKind& kind, const IndexPlace& place,
                                     absl::FunctionRef<absl::StatusOr<MadeIndex>()> make) {
  const bool is_kept = !place.folder.empty();
  const std::string path = JoinPath(place.folder, NameOf(file, kind, place.options));
  std::unique_ptr<FileLock> lock;
  absl::Status written;
  if (is_kept) {
    if (FileExists(path)) {
      if (auto kept = Load(kind, file.size(), path); kept.ok()) return kept;
    }
    written = MakeFolder(place.folder);
    if (written.ok()) {
      auto taken = FileLock::Take(path + ".lock", [&] {
        LogInfo(absl::StrCat(file.path(), ": waits until another process has made ", kind.what, ", ", path));
      });
      written = taken.status();
      if (taken.ok()) lock = *std::move(taken);
    }
    if (lock != nullptr && FileExists(path)) {  // another process made it meanwhile
      if (auto kept = Load(kind, file.size(), path); kept.ok()) return kept;
    }
  }
  DISTILL_ASSIGN_OR_RETURN(MadeIndex made, make());
  const auto owner = std::make_shared<const MadeIndex>(std::move(made));
  IndexLists lists = ListsOf(owner, owner->first, owner->second);
  lists.memory_bytes = static_cast<int64_t>((owner->first.capacity() + owner->second.capacity()) * sizeof(uint64_t));
  if (!is_kept || !owner->is_whole) return lists;
  if (lock != nullptr) written = Save(lists, kind, file.size(), path);
  if (!written.ok()) {
    LogWarning(absl::StrCat(file.path(), ": ", kind.what, " is not kept: ", written.message(),
                            "; name a folder that can be written (cache_dir)"));
  }
  return lists;
}

}  // namespace distill
