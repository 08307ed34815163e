// How a backend makes the communicator of one color of a Split: rank 0 of every color listens, all hear where over the
// parent, and the ranks of a color meet there as those of a job do. Internal to comm/.
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "libdistill/comm/setup.h"

namespace distill {

// What a communicator keeps of its setup for those split from it.
struct SplitSeed {
  explicit SplitSeed(const Setup& whole)
      : setup(whole), address(whole.rendezvous->local_address()), secret(whole.rendezvous->secret()) {
    setup.rendezvous = nullptr;
  }
  Setup setup;          // without the rendezvous: parts meet by one of their own
  std::string address;  // where the other hosts reach this one; empty: by its name
  std::string secret;   // what the parts' are made of: none is ever sent
};

// Every rank of `parent` must call it; one whose color is below 0 (`members` is empty) gets null. `members[i]`: the
// rank in `parent` of rank i of the part.
[[nodiscard]] MadeCommunicator SplitFrom(Communicator& parent, const SplitSeed& seed, const std::vector<int>& members,
                                         absl::FunctionRef<MadeCommunicator(Setup)> create);

}  // namespace distill
