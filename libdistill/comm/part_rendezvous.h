// Lets the communicators that one of a job is made of share its rendezvous: they hear of lost ranks and of errors where
// the job does, and need no meeting of their own. Internal to comm/.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/world/rendezvous.h"

namespace distill {

// What the parts share: the rendezvous, the call that the job is in, and the error that has ended it.
class JobCalls {
 public:
  explicit JobCalls(std::shared_ptr<Rendezvous> rendezvous) : rendezvous_(std::move(rendezvous)) {}
  Rendezvous& rendezvous() const { return *rendezvous_; }

  // The collective call that the job is in; the start is number 1.
  void Next() { call_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t call() const { return call_.load(std::memory_order_relaxed); }

  // Ends this rank's waits in all parts, with this error unless the rendezvous knows better. Any thread; never blocks.
  void End(const absl::Status& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_.ok()) error_ = error;
    ended_.store(true, std::memory_order_release);
  }
  bool ended() const { return ended_.load(std::memory_order_acquire) || rendezvous_->failed(); }
  // `news` of the rendezvous, or else that error.
  [[nodiscard]] absl::Status Check(absl::Status news) const {
    if (!news.ok() || !ended_.load(std::memory_order_acquire)) return news;
    const std::lock_guard<std::mutex> lock(mutex_);
    return error_;
  }

 private:
  const std::shared_ptr<Rendezvous> rendezvous_;
  std::atomic<uint64_t> call_{1};
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  absl::Status error_;
};

// The rendezvous as one part sees it. Its exchange is the whole job's: every rank of the job takes part and gets every
// rank's blob (Setup::Exchange picks the part's). Calls that it is asked about are the job's.
class PartRendezvous : public Rendezvous {
 public:
  // `members`: the job's ranks that are the ranks of this part.
  PartRendezvous(std::shared_ptr<JobCalls> job, std::vector<int> members)
      : job_(std::move(job)), members_(std::move(members)) {
    ShareBusy(job_->rendezvous().busy());
  }

  absl::string_view kind() const override { return job_->rendezvous().kind(); }
  absl::StatusOr<std::vector<std::string>> AllGather(const std::string& blob, const Deadline& deadline) override {
    return job_->rendezvous().AllGather(blob, deadline);
  }
  absl::Status CheckPeers() override { return job_->Check(job_->rendezvous().CheckPeers()); }
  bool failed() const override { return job_->ended(); }
  absl::Status CheckPeersIn(uint64_t) override { return job_->Check(job_->rendezvous().CheckPeersIn(job_->call())); }
  bool HasLeft(int rank) const override { return job_->rendezvous().HasLeft(members_[static_cast<size_t>(rank)]); }
  void Announce(const absl::Status& error) override { job_->rendezvous().Announce(error); }
  std::string secret() const override { return job_->rendezvous().secret(); }
  std::string local_address() const override { return job_->rendezvous().local_address(); }

 private:
  const std::shared_ptr<JobCalls> job_;
  const std::vector<int> members_;
};

}  // namespace distill
