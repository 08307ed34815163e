#include "libdistill/comm/slot_stores.h"

#include <algorithm>
#include <chrono>

namespace distill {
namespace {

// What a common cache holds is read faster than what memory holds, so stores past the caches must be faster by so much.
// (Zen 3, pieces in and out of the caches: 0.6 to 1.3 times as fast on cores with a common cache, 1.6 to 7 on others.)
constexpr double kWorthIt = 1.4;

}  // namespace

void SlotStores::Write(int64_t bytes, absl::FunctionRef<void(Stores)> write) {
  if (bytes < kShortestBytes || turn_ >= 2 * kTried) {
    write(stores_);
    return Took(bytes, absl::ZeroDuration());
  }
  const auto start = std::chrono::steady_clock::now();
  write(stores_);
  Took(bytes, absl::FromChrono(std::chrono::steady_clock::now() - start));
}

void SlotStores::Took(int64_t bytes, absl::Duration time) {
  if (bytes < kShortestBytes) return;
  if (turn_ < 2 * kTried && turn_ % kTried >= kSettled) {
    double& best = stores_ == Stores::kCached ? cached_seconds_ : past_caches_seconds_;
    best = std::min(best, absl::ToDoubleSeconds(time) / static_cast<double>(bytes));
  }
  turn_ = (turn_ + 1) % kPeriod;
  if (turn_ == 0) *this = SlotStores();
  if (turn_ == kTried) stores_ = Stores::kPastCaches;
  if (turn_ == 2 * kTried && cached_seconds_ < kWorthIt * past_caches_seconds_) stores_ = Stores::kCached;
}

}  // namespace distill
