// One file of the hub, from the network to the disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libdistill/store/hub_client.h"
#include "libdistill/store/hub_listing.h"

namespace distill {

// How far the download of a repository is, as log lines; any thread.
class HubProgress {
 public:
  // `bytes`: of all files that are fetched. A line is logged at most once in `interval`, and none before the first one
  // is over.
  HubProgress(std::string name, int64_t bytes, absl::Duration interval = absl::Seconds(5))
      : name_(std::move(name)), bytes_(bytes), interval_(interval) {}

  // More bytes are there: those that were found on the disk, or that came by the network.
  void Found(int64_t bytes);
  void Came(int64_t bytes);
  int64_t came() const { return came_; }
  absl::Duration age() const { return absl::Now() - start_; }

 private:
  void Tell();

  const std::string name_;
  const int64_t bytes_;
  const absl::Duration interval_;
  const absl::Time start_ = absl::Now();
  std::atomic<int64_t> found_{0}, came_{0};
  std::mutex mutex_;
  absl::Time told_ = start_;
};

// Downloads the file into BLOB_PATH.incomplete and, when all of it is there and has the right hash, renames it to
// `blob_path`. What an earlier process left in that file is kept: the download resumes behind it. A fast server is read
// by one request, a slow one by several ranges at a time. Blocks; the caller has the blob's lock.
//
// DataLoss: the bytes have another hash, also when they are fetched again. ResourceExhausted: the disk is full; what
// came is kept. Others as HubClient::Send.
[[nodiscard]] absl::Status DownloadHubFile(HubClient& hub, const HubRepository& at_commit, const HubFile& file,
                                           const std::string& blob_path, HubProgress& progress);

}  // namespace distill
