// The tags of messages over the fabric. Internal to comm/.
#pragma once

#include <cstdint>

namespace distill {

// Of 64 bits:
//
//   63      56 55   54      42 41          28 27      0
//   [ channel ][ 0 ][  call  ][ fingerprint  ][ chunk  ]      of a collective
//   [ channel ][ 1 ][ number 54..44 ][ sender ][ chunk ]      of a message between two ranks, or of a credit
//
// The endpoint adds the channel: which of the communicators that share its rails (transport/shared_rails.h). A
// fingerprint of this call and all before it goes with the call's number, so that messages of ranks that do not make
// the same calls never meet: they wait, and hear through the rendezvous why (Rendezvous::CompareCalls). Numbers wrap;
// what is under way at one time is told apart. Providers may ignore whom a receive names, so a tag that several ranks
// could send at one time also says who does.
constexpr int kChunkBits = 28, kFingerprintBits = 14, kCallBits = 13, kSenderBits = 16, kNumberBits = 11;
static_assert(kChunkBits + kFingerprintBits + kCallBits == 55 && kChunkBits + kSenderBits + kNumberBits == 55);

constexpr uint64_t LowBits(uint64_t value, int bits) { return value & ((uint64_t{1} << bits) - 1); }

inline uint64_t FabricTag(uint64_t number, uint32_t fingerprint) {
  return LowBits(number, kCallBits) << (kChunkBits + kFingerprintBits) |
         static_cast<uint64_t>(fingerprint >> (32 - kFingerprintBits)) << kChunkBits;
}
inline uint64_t FabricPairTag(uint64_t number, int sender) {
  return uint64_t{1} << 55 | LowBits(number, kNumberBits) << (kChunkBits + kSenderBits) |
         static_cast<uint64_t>(sender) << kChunkBits;
}
// Of what goes back to the previous rank in a call (fabric_writes.h): chunks that no message has.
inline uint64_t FabricNoteTag(uint64_t call) { return call | (LowBits(~uint64_t{0}, kChunkBits) - 1); }
inline uint64_t FabricKeyTag(uint64_t call) { return call | LowBits(~uint64_t{0}, kChunkBits); }
// Of a credit (fabric_credits.h): a chunk that no message has.
inline uint64_t FabricCreditTag(uint64_t number, int sender) { return FabricKeyTag(FabricPairTag(number, sender)); }

}  // namespace distill
