#include "libdistill/comm/slot_stores.h"

#include "absl/time/clock.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr int64_t kPiece = 128 << 10;

// What a core sees that shares a cache with the readers, or does not.
absl::Duration TimeOf(Stores stores, bool shares_cache) {
  if (stores == Stores::kPastCaches) return absl::Microseconds(10);
  return absl::Microseconds(shares_cache ? 8 : 30);
}

// Writes so many pieces; returns how many of them went past the caches.
int Write(SlotStores& slot_stores, int pieces, bool shares_cache) {
  int past_caches = 0;
  for (int i = 0; i < pieces; ++i) {
    past_caches += slot_stores.stores() == Stores::kPastCaches ? 1 : 0;
    slot_stores.Took(kPiece, TimeOf(slot_stores.stores(), shares_cache));
  }
  return past_caches;
}

TEST_CASE("slots are filled in the faster way, but for a few pieces that find it out anew") {
  SlotStores slot_stores;
  for (const bool shares_cache : {true, false, false, true}) {
    const int past_caches = Write(slot_stores, SlotStores::kPeriod, shares_cache);
    CHECK(past_caches == (shares_cache ? SlotStores::kTried : SlotStores::kPeriod - SlotStores::kTried));
  }
}

TEST_CASE("one slow piece, as of a rank that lost its core for a while, decides nothing") {
  SlotStores slot_stores;
  Write(slot_stores, SlotStores::kTried - 1, true);
  slot_stores.Took(kPiece, absl::Milliseconds(10));
  Write(slot_stores, SlotStores::kTried, true);
  CHECK(slot_stores.stores() == Stores::kCached);
}

TEST_CASE("short pieces are written in the way found for others and decide nothing") {
  SlotStores slot_stores;
  Write(slot_stores, 2 * SlotStores::kTried, false);
  REQUIRE(slot_stores.stores() == Stores::kPastCaches);
  for (int i = 0; i < 2 * SlotStores::kPeriod; ++i) {
    slot_stores.Write(64, [](Stores stores) { CHECK(stores == Stores::kPastCaches); });
  }
  CHECK(slot_stores.stores() == Stores::kPastCaches);
}

TEST_CASE("what is written takes its own time") {
  SlotStores slot_stores;
  int past_caches = 0;
  for (int i = 0; i < SlotStores::kPeriod; ++i) {
    slot_stores.Write(kPiece, [&](Stores stores) {
      past_caches += stores == Stores::kPastCaches ? 1 : 0;
      if (i < 2 * SlotStores::kTried && stores == Stores::kCached) absl::SleepFor(absl::Milliseconds(5));
    });
  }
  CHECK(past_caches == SlotStores::kPeriod - SlotStores::kTried);
}

}  // namespace
}  // namespace distill
