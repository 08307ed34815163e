// libfabric over loopback that behaves like the provider efa where tcp is kinder than that, so that code which only
// works because of tcp's manners fails here:
//   - completions come in any order, some after hundreds of polls, and there is no wait object;
//   - any start of an operation may be refused with -FI_EAGAIN, and is beyond 12 receives or 2 sends under way;
//   - what was started only moves while somebody polls, and messages of one rank to another overtake each other;
//   - a receive takes a message with its tag from anybody, whomever it names (there is no FI_DIRECTED_RECV);
//   - buffers must lie in what is registered, and writes carry no more than 4 bytes of data beside them;
//   - the first write to a peer is refused until the two have shaken hands, which takes some polls;
//   - an error of the provider's own has no context (FailSoon).
// What chance decides comes from a seed. In a process of a test's own: for good.
//
//   DISTILL_RETURN_IF_ERROR(EfaLikeFabric::Install(seed + world.rank));
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace distill::testing {

class EfaLikeFabric {
 public:
  // Before anything is opened.
  [[nodiscard]] static absl::Status Install(uint64_t seed);
  // The next poll of any endpoint that has moved `polls` times from now on reports an error without a context.
  static void FailSoon(int polls);
  // How often each of these has happened, so that a test can say that it did.
  struct Counts {
    int64_t refused = 0, overtaken = 0, held = 0, handshakes = 0, full = 0;  // `held`: completions, polls of each
  };
  static Counts counts();
};

}  // namespace distill::testing
