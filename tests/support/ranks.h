// Runs a test's ranks as real processes on this host.
//
//   const auto outcomes = RunRanks(3, absl::Seconds(20), [](const World& world) -> absl::Status { ... });
//   CHECK(Failures(outcomes) == "");
//
// The body runs in a forked child: it reports with the status it returns (Expect makes one), not with Catch's macros.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libdistill/world/world.h"

namespace distill::testing {

struct RankOutcome {
  int rank = 0;
  bool ended = false;   // false: stopped, or still there at the limit, and killed for that
  int signal = 0;       // what killed it, or 0
  absl::Status status;  // what the body returned; Aborted when it never came back
  absl::Duration took;
};

// Blocks until all ranks have ended or are stopped, or until the limit, which is a guard against a hang and no
// measurement: it counts from the fork, also while a loaded machine still starts the ranks. The ranks meet on a free
// port of 127.0.0.1.
std::vector<RankOutcome> RunRanks(int world_size, absl::Duration limit,
                                  const std::function<absl::Status(const World&)>& body);

// So many such jobs at one time, where ranks wait more than they compute; the body is told its job. Outcomes by job.
std::vector<std::vector<RankOutcome>> RunJobs(int jobs, int world_size, absl::Duration limit,
                                              const std::function<absl::Status(int job, const World&)>& body);

// For all ranks from here on: `here` runs in this process before they are forked, `there` in each of them before its
// body, which does not run where that fails.
void PrepareRanks(std::function<void()> here, std::function<absl::Status(const World&)> there);

// From a body: blocks until every rank of its job is here, beside the communicator that is tested. A collective is over
// on one rank before it is on all, so a rank that is killed right behind it may be lost in the middle of the others'.
// DeadlineExceeded when they have not come within 2 minutes.
absl::Status AwaitAllRanks();

// One line for each rank that did not return OK; "" when all did.
std::string Failures(const std::vector<RankOutcome>& outcomes);

// What `wait` returns, or Internal when it took longer than `limit`.
absl::Status ExpectWithin(absl::Duration limit, const std::function<absl::Status()>& wait);

// Prints when each rank ended: a fault's detection is measured where it is tested.
void PrintTimes(const std::string& fault, const std::vector<RankOutcome>& outcomes);

// OK, or Internal with the text.
absl::Status Expect(bool condition, absl::string_view text);

// OK when `status` has this code and its message contains every one of `parts`; else what it was.
absl::Status ExpectError(const absl::Status& status, absl::StatusCode code, const std::vector<std::string>& parts);

// The world of one rank of a job on this host whose rank 0 listens on `port`.
World LocalWorld(int rank, int world_size, int port);

// From now on this process is refused every thread, as by a system that has no more.
void RefuseThreads();

// A TCP port of 127.0.0.1 for a job's rank 0, kept from everybody else for as long as this object lives: it is bound
// here without listening, which lets a listener with SO_REUSEADDR have it, and neither another process nor an outgoing
// connection.
class ReservedPort {
 public:
  ReservedPort();
  ~ReservedPort();
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  int number() const { return number_; }

 private:
  int socket_;
  int number_;
};

}  // namespace distill::testing
