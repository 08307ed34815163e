// The folder in which huggingface_hub (2.4) keeps what it downloaded, laid out as it does, so that either finds what
// the other fetched:
//
//   HF_HUB_CACHE/models--org--name/blobs/ETAG                          the bytes, once
//                                  snapshots/COMMIT/config.json        a link to them: ../../blobs/ETAG
//                                  refs/main                           the commit that "main" was when last asked
//                                  trees/COMMIT.json                   what the commit holds
//   HF_HUB_CACHE/.locks/models--org--name/ETAG.lock                    held (flock) by who downloads that blob
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/file_lock.h"
#include "libdistill/store/hub_listing.h"

namespace distill {

// "org--name" of a path in a snapshot of the cache, "CACHE/datasets--org--name/snapshots/COMMIT/data"; else empty.
std::string NameOfSnapshot(absl::string_view path);

class HubCache {
 public:
  // Of one repository; touches no file.
  HubCache(const std::string& cache_folder, const HubRepository& repository);

  const std::string& folder() const { return folder_; }
  std::string SnapshotFolder(const std::string& commit) const;
  std::string BlobPath(const HubFile& file) const;
  // Whether they are there, with as many bytes as the listing says.
  bool HasFile(const std::string& commit, const HubFile& file) const;
  bool HasBlob(const HubFile& file) const;
  // Which file of the cache it is that has another number of bytes, and how many, for messages.
  std::optional<std::string> FindDamage(const std::string& commit, const HubFile& file) const;

  // Which commit the revision was when somebody last asked the hub.
  std::optional<std::string> ReadRef(const std::string& revision) const;
  [[nodiscard]] absl::Status WriteRef(const std::string& revision, const std::string& commit) const;
  std::optional<std::vector<HubFile>> ReadListing(const std::string& commit) const;
  [[nodiscard]] absl::Status WriteListing(const std::string& commit, const std::vector<HubFile>& files) const;

  // Makes the folders, and blocks until no other process has the lock of this blob.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<FileLock>> LockBlob(const HubFile& file) const;
  // The snapshot's link to a blob that is there. Under its lock.
  [[nodiscard]] absl::Status Link(const std::string& commit, const HubFile& file) const;

 private:
  std::string cache_folder_, folder_, locks_;
};

}  // namespace distill
