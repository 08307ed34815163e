// libfabric over loopback that behaves like the provider efa where tcp is kinder than that, so that code which only
// works because of tcp's manners fails here:
//   - there are many network cards, which the ranks of a host divide: 1, 2 or 4 rails each; with several, one is slow;
//   - completions come in any order, some after hundreds of polls, and there is no wait object;
//   - any start of an operation may be refused with -FI_EAGAIN, and is beyond 12 receives or 2 sends under way;
//   - what was started only moves while somebody polls, and messages of one rank to another overtake each other;
//   - a receive takes a message with its tag from anybody, whomever it names (there is no FI_DIRECTED_RECV);
//   - a message that is longer than its buffer is the receiver's error alone, and ends no connection;
//   - buffers must lie in what is registered, and writes carry no more than 4 bytes of data beside them;
//   - the first write to a peer is refused until the two have shaken hands, which takes some polls;
//   - an error of the provider's own has no context (FailSoon).
// What chance decides comes from a seed. In a process of a test's own: for good. What else watches libfabric
// (watch_fabric.h) comes after it.
//
//   DISTILL_RETURN_IF_ERROR(EfaLikeFabric::Install(seed + world.rank, /*rails=*/2));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace distill::testing {

class EfaLikeFabric {
 public:
  // Before anything is opened. From here on libfabric has the provider efa; others are as they are.
  [[nodiscard]] static absl::Status Install(uint64_t seed, int rails);
  // The poll that is `polls` from now on, of any rail or of this one of all endpoints, reports an error without a
  // context.
  static void FailSoon(int polls, int rail = -1);
  // How often each of these has happened in this process, so that a test can say that it did.
  struct Counts {
    int64_t refused = 0;                        // by chance
    int64_t full_sends = 0, full_receives = 0;  // refused, as so many were under way
    int64_t refused_writes = 0, handshakes = 0;
    int64_t overtaken = 0;  // sends, by a later one
    int64_t held = 0;       // completions, polls of each
    int64_t anybody = 0;    // receives that named a peer
    int64_t invalid = 0;    // starts with a buffer that is not registered, or too much data
    int64_t cancelled = 0;
    int64_t truncated = 0;                    // messages that were longer than their buffer
    int64_t rails = 0, slow = 0, failed = 0;  // rails with operations; operations of a slow one; errors of one's own

    std::string Text() const;
  };
  static Counts counts();
};

}  // namespace distill::testing
