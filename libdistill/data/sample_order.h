// The order of the samples of an epoch: any place of it, without a list of all.
//
//   const SampleOrder order = SampleOrder::Shuffled(dataset.size(), seed, epoch);
//   const int64_t first = order[0];
//
// A pure function of (size, seed, epoch): every rank, and every number of ranks, has the same one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace distill {

class SampleOrder {
 public:
  // Up to so many samples the shuffle is a list of 8 bytes a sample, Fisher and Yates': all orders are equally likely.
  // Beyond, no list is kept: a Feistel network permutes the numbers of the next power of two, and those that are no
  // samples are skipped (cycle walking; Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). Eight rounds
  // of a 64-bit mixing function stand in for a random function (Luby and Rackoff 1988 show that four suffice for one).
  // Its permutations are not all there are, but a test tells them from chance neither by where samples come to lie nor
  // by who lies beside whom (tests/data/sample_order_test.cc). It is part of the order: another limit is another order
  // for the sizes between.
  static constexpr int64_t kMostListed = int64_t{1} << 22;

  // Of no samples.
  SampleOrder() = default;
  static SampleOrder InOrder(int64_t size);
  static SampleOrder Shuffled(int64_t size, uint64_t seed, int64_t epoch, int64_t most_listed = kMostListed);
  // Of samples that are cheap to read only in about the order of their numbers (Dataset::window). Windows of so many
  // consecutive samples come one after the other, the samples of each shuffled without a list, as above. So a sample
  // comes less than `window` places before or behind its number: samples that lie farther apart never change places,
  // and what is sorted over more than a window stays so. Where windows end follows from seed and epoch (the first one
  // is cut short by chance), so that those on both sides of a border are mixed in the next epoch. A window that holds
  // all samples is Shuffled.
  static SampleOrder ShuffledInWindows(int64_t size, int64_t window, uint64_t seed, int64_t epoch);

  int64_t size() const { return size_; }
  // The sample at `place`, from 0 to size() - 1. Any thread.
  int64_t operator[](int64_t place) const;

 private:
  static constexpr int kRounds = 8;
  uint64_t Permute(uint64_t number) const;
  int64_t InWindow(int64_t place) const;

  int64_t size_ = 0;
  std::shared_ptr<const std::vector<int64_t>> listed_;
  int half_bits_ = 0;  // of a number's half in the network; 0: there is none, and samples come by their numbers
  uint64_t keys_[kRounds] = {};
  int64_t window_ = 0;  // 0: there are no windows
  int64_t first_ = 0;   // samples of the first one
  uint64_t seed_ = 0;   // of the windows
  int64_t epoch_ = 0;
};

}  // namespace distill
