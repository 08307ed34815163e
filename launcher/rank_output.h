// What the ranks write to stderr, passed on as it comes, with the last lines of each kept. stdout is the ranks' own.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace distill {

// Where stderr is a terminal the ranks write to it themselves, so that it is one to them too: then nothing is kept.
class RankOutput {
 public:
  explicit RankOutput(int ranks);
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  // Where the rank is to write; the caller closes it in this process. -1: to stderr itself.
  int OpenFor(int rank);
  // After the last fork: a thread begins. ResourceExhausted: there is none to have.
  [[nodiscard]] absl::Status Start();
  // Until all that has been written is passed on, at most `limit`: somebody may not read it.
  void Drain(absl::Duration limit);
  // Its last lines, at most ten.
  std::string LastLines(int rank) const;
  // Whether another rank has written since.
  bool OthersWroteAfter(int rank) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace distill
