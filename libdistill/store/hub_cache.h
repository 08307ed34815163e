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
#include "libdistill/store/file_lock.h"
#include "libdistill/store/hub_listing.h"

namespace distill {

class HubCache {
 public:
  // Of one repository; touches no file.
  HubCache(const std::string& cache_folder, const HubRepository& repository);

  const std::string& folder() const { return folder_; }
  std::string SnapshotFolder(const std::string& commit) const;
  std::string BlobPath(const HubFile& file) const;
  bool HasFile(const std::string& commit, const HubFile& file) const;
  bool HasBlob(const HubFile& file) const;

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
