// The tags of messages over the fabric. Internal to comm/.
#pragma once

#include <cstdint>

namespace distill {

// The number of the call (or, with a mark of its own, of the message between two ranks), then that of the chunk. A
// fingerprint of this call and all before it goes with the number, so that messages of ranks that do not make the same
// calls never meet: they wait, and hear through the rendezvous why (Rendezvous::CompareCalls). Numbers wrap; what is
// under way at one time is told apart. Providers may ignore whom a receive names, so a tag that several ranks could
// send at one time also says who does.
inline uint64_t FabricTag(uint64_t number, uint32_t fingerprint) {
  return (number & ((uint64_t{1} << 16) - 1)) << 46 | static_cast<uint64_t>(fingerprint >> 18) << 32;
}
inline uint64_t FabricPairTag(uint64_t number, int sender) {
  return uint64_t{1} << 62 | (number & ((uint64_t{1} << 14) - 1)) << 48 | static_cast<uint64_t>(sender) << 32;
}
// Of what goes back to the previous rank in a call (fabric_writes.h): chunks that no message has.
inline uint64_t FabricNoteTag(uint64_t call) { return call | 0xfffffffe; }
inline uint64_t FabricKeyTag(uint64_t call) { return call | 0xffffffff; }
// Of a credit (fabric_credits.h): a chunk that no message has.
inline uint64_t FabricCreditTag(uint64_t number, int sender) { return FabricPairTag(number, sender) | 0xffffffff; }

}  // namespace distill
