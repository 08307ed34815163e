// Lets the communicators that one of a job is made of share its rendezvous: they hear of lost ranks and of errors where
// the job does, and need no meeting of their own. Internal to comm/.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/comm/job_calls.h"
#include "libdistill/world/rendezvous.h"

namespace distill {

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
  std::string local_address() const override { return job_->rendezvous().local_address(); }

 private:
  const std::shared_ptr<JobCalls> job_;
  const std::vector<int> members_;
};

}  // namespace distill
