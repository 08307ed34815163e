// One run at a time writes an output_dir.
//
//   DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<OutputLock> lock, OutputLock::Take(output_dir));
//
// OUTPUT_DIR/.lock is locked with fcntl: the kernel frees it when the process ends, however it ends. Other hosts of a
// shared file system may not see that lock, so the file also holds a lease: lines "name value" of the host, the boot,
// the process, when it took the folder, and a counter that a thread renews. A lease of this host's boot is decided by
// the lock alone; another host's is watched: it lives when its counter changes within the patience.
//
// Under s3:// there are no locks: OUTPUT_DIR/.lock is the lease alone, an object that each of its writers replaces only
// where it is still the one that he has read (If-Match). One whose process has ended, on this host, is taken at once;
// another is watched. Where a server compares nothing, Confirm tells who of two was the last.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace distill {

struct OutputLockTimes {
  absl::Duration renewal = absl::Seconds(10);
  absl::Duration patience = absl::Seconds(25);
};

class OutputLock {
 public:
  // Makes the folder where it is missing. Blocks, for the patience at most, where another host has left a lease.
  // FailedPrecondition: another run has the folder; says whose it is.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<OutputLock>> Take(const std::string& output_dir,
                                                                        const OutputLockTimes& times = {});
  // FailedPrecondition: another run has taken the folder meanwhile. Where file systems have no locks, two runs that
  // begin at the same time may both take it; the one that did so first is refused here, before its first step.
  [[nodiscard]] absl::Status Confirm() const;
  // Frees the folder; the file stays, empty. In S3 it goes.
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  // One a kind of store (lease.h).
  class Holder {
   public:
    virtual ~Holder() = default;
    [[nodiscard]] virtual absl::Status Take() = 0;
    [[nodiscard]] virtual absl::Status Confirm() = 0;
  };

 private:
  explicit OutputLock(std::unique_ptr<Holder> holder);
  std::unique_ptr<Holder> holder_;
};

}  // namespace distill
