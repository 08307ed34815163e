#include "libdistill/store/hub_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_name.h"

namespace distill {
namespace {

// So that backup programs pass the folder over; the text is huggingface_hub's.
constexpr char kCacheTag[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file is a cache directory tag created by huggingface_hub.\n"
    "# For information about cache directory tags, see:\n"
    "#\thttps://bford.info/cachedir/\n";

// -1: it is not there.
int64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? -1 : static_cast<int64_t>(size);
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Readers see the old file or the new one, and nothing between.
absl::Status ReplaceFile(const std::string& path, const std::string& bytes) {
  DISTILL_RETURN_IF_ERROR(MakeFolder(ParentOf(path)));
  const std::string temporary = absl::StrCat(TemporaryName(path), ".tmp");
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(temporary, bytes));
  return Rename(temporary, path);
}

}  // namespace

std::string NameOfSnapshot(absl::string_view path) {
  constexpr absl::string_view kFolder = "/snapshots/";
  const size_t found = path.rfind(kFolder);
  if (found == absl::string_view::npos) return "";
  const absl::string_view commit = path.substr(found + kFolder.size());
  if (!IsCommit(commit.substr(0, commit.find('/')))) return "";
  path = path.substr(0, found);
  path = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  return absl::ConsumePrefix(&path, "datasets--") || absl::ConsumePrefix(&path, "models--") ? std::string(path) : "";
}

HubCache::HubCache(const std::string& cache_folder, const HubRepository& repository) : cache_folder_(cache_folder) {
  const std::string name = absl::StrCat(repository.Plural(), "--", absl::StrReplaceAll(repository.name, {{"/", "--"}}));
  folder_ = JoinPath(cache_folder, name);
  locks_ = JoinPath(JoinPath(cache_folder, ".locks"), name);
}

std::string HubCache::SnapshotFolder(const std::string& commit) const {
  return JoinPath(JoinPath(folder_, "snapshots"), commit);
}

std::string HubCache::BlobPath(const HubFile& file) const { return JoinPath(JoinPath(folder_, "blobs"), file.etag()); }

bool HubCache::HasFile(const std::string& commit, const HubFile& file) const {
  return SizeOf(JoinPath(SnapshotFolder(commit), file.path)) == file.size;
}

bool HubCache::HasBlob(const HubFile& file) const { return SizeOf(BlobPath(file)) == file.size; }

std::optional<std::string> HubCache::FindDamage(const std::string& commit, const HubFile& file) const {
  for (const std::string& path : {BlobPath(file), JoinPath(SnapshotFolder(commit), file.path)}) {
    const int64_t size = SizeOf(path);
    if (size < 0 || size == file.size) continue;
    return absl::StrCat(path, " has ", size, " bytes, and not the ", file.size, " of ", file.path);
  }
  return std::nullopt;
}

std::optional<std::string> HubCache::ReadRef(const std::string& revision) const {
  const absl::StatusOr<std::string> text = ReadFile(JoinPath(JoinPath(folder_, "refs"), revision));
  if (!text.ok()) return std::nullopt;
  std::string commit(absl::StripAsciiWhitespace(*text));
  if (!IsCommit(commit)) return std::nullopt;
  return commit;
}

absl::Status HubCache::WriteRef(const std::string& revision, const std::string& commit) const {
  if (revision == commit || ReadRef(revision) == commit) return absl::OkStatus();
  return ReplaceFile(JoinPath(JoinPath(folder_, "refs"), revision), commit);
}

std::optional<std::vector<HubFile>> HubCache::ReadListing(const std::string& commit) const {
  const std::string path = JoinPath(JoinPath(folder_, "trees"), absl::StrCat(commit, ".json"));
  if (!FileExists(path)) return std::nullopt;
  const absl::StatusOr<std::string> text = ReadFile(path);
  absl::StatusOr<std::vector<HubFile>> files = text.ok() ? HubListingFromJson(*text) : text.status();
  if (files.ok()) return *std::move(files);
  LogWarning(absl::StrCat(path, ": ", files.status().message(), "; the hub is asked again"));
  return std::nullopt;
}

absl::Status HubCache::WriteListing(const std::string& commit, const std::vector<HubFile>& files) const {
  return ReplaceFile(JoinPath(JoinPath(folder_, "trees"), absl::StrCat(commit, ".json")), HubListingToJson(files));
}

absl::StatusOr<std::unique_ptr<FileLock>> HubCache::LockBlob(const HubFile& file) const {
  DISTILL_RETURN_IF_ERROR(MakeFolder(locks_));
  DISTILL_RETURN_IF_ERROR(MakeFolder(JoinPath(folder_, "blobs")));
  if (const std::string tag = JoinPath(cache_folder_, "CACHEDIR.TAG"); !FileExists(tag)) {
    DISTILL_RETURN_IF_ERROR(WriteWholeFile(tag, kCacheTag));
  }
  return FileLock::Take(JoinPath(locks_, absl::StrCat(file.etag(), ".lock")), [&] {
    LogInfo(absl::StrCat(folder_, ": waits until another process has downloaded ", file.path));
  });
}

absl::Status HubCache::Link(const std::string& commit, const HubFile& file) const {
  if (HasFile(commit, file)) return absl::OkStatus();
  const std::string link = JoinPath(SnapshotFolder(commit), file.path);
  DISTILL_RETURN_IF_ERROR(MakeFolder(ParentOf(link)));
  std::string target = "../../";
  for (auto depth = std::count(file.path.begin(), file.path.end(), '/'); depth > 0; --depth) target += "../";
  target += absl::StrCat("blobs/", file.etag());
  unlink(link.c_str());  // a link to a blob that is gone, or a damaged file
  if (symlink(target.c_str(), link.c_str()) == 0 || errno == EEXIST) return absl::OkStatus();
  if (errno != EPERM && errno != ENOTSUP && errno != ENOSYS) return FileError("link", link, errno);
  return Rename(BlobPath(file), link);  // a file system without links, where other clients move it, too
}

}  // namespace distill
