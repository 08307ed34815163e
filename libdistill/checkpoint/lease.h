// OUTPUT_DIR/.lock's text, and who of those that it names still runs (output_lock.h). Inside checkpoint/ only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libdistill/checkpoint/output_lock.h"

namespace distill {

// Lines "name value": host, boot, pid, since, counter; empty: nobody has it.
using Lease = std::map<std::string, std::string>;

Lease ParseLease(absl::string_view text);
std::string LeaseText(const Lease& own, int64_t counter);
// Of this process, without a counter.
Lease OwnLease();
// With "namespace", that of its process id, too: where no lock tells whether the process runs.
Lease OwnLeaseWithoutLock();
// Whether `lease` is that of the run with `own`, whatever its counter.
bool IsOfSameRun(Lease lease, const Lease& own);
// Whether its process ran on this host, and is not there any more; of leases without a lock.
bool HasEndedHere(const Lease& lease, const Lease& own);

// The error of an output_dir that the run of `lease` has.
absl::Status InUse(const std::string& output_dir, Lease lease);
// To the log, before and after the patience.
void SayWaits(const std::string& output_dir, const Lease& other, absl::Duration patience);
void SayTakesOver(const std::string& output_dir, const Lease& other, absl::Duration patience);

std::unique_ptr<OutputLock::Holder> MakeFileLock(const std::string& output_dir, const OutputLockTimes& times);
std::unique_ptr<OutputLock::Holder> MakeStoreLock(const std::string& output_dir, const OutputLockTimes& times);

}  // namespace distill
