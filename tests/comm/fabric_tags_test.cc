// The parts of a tag leave each other, and the channel's 8 bits, alone.
#include "libdistill/comm/fabric_tags.h"

#include <set>

#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("tags of calls, of messages between two ranks and of credits differ, and leave 8 bits for the channel") {
  std::set<uint64_t> tags;
  size_t made = 0;
  const auto add = [&](uint64_t tag) {
    ++made;
    tags.insert(tag);
  };
  for (const uint64_t number : {0, 1, 2, 1023, 2047}) {
    for (const uint64_t chunk : {0, 1, 200'000'000}) {
      for (const uint32_t fingerprint : {0u, 1u << 18, 0xffffffffu}) add(FabricTag(number, fingerprint) + chunk);
      for (const int sender : {0, 1, 511, 65535}) add(FabricPairTag(number, sender) + chunk);
    }
    for (const uint32_t fingerprint : {0u, 1u << 18, 0xffffffffu}) {
      add(FabricNoteTag(FabricTag(number, fingerprint)));
      add(FabricKeyTag(FabricTag(number, fingerprint)));
    }
    for (const int sender : {0, 1, 511, 65535}) add(FabricCreditTag(number, sender));
  }
  CHECK(tags.size() == made);
  CHECK(*tags.rbegin() < uint64_t{1} << 56);
}

TEST_CASE("numbers of calls wrap within their own bits, and of a fingerprint the upper bits count") {
  CHECK(FabricTag(8192 + 5, 0) == FabricTag(5, 0));
  CHECK(FabricTag(8191, 0) != FabricTag(8190, 0));
  CHECK(FabricPairTag(2048 + 5, 3) == FabricPairTag(5, 3));
  CHECK(FabricPairTag(2047, 3) != FabricPairTag(2046, 3));
  CHECK(FabricTag(1, 0xffffffff) == FabricTag(1, 0xfffc0000));
}

}  // namespace
}  // namespace distill
