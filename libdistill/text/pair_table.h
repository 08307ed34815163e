// What a pair of adjacent tokens merges into. Internal to text/.
//
// Most pairs that are looked up merge into nothing, so a small bit set, which stays in the cache, answers them first;
// the rest is one place in an open hash table, which is a cache line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace distill {

class PairTable {
 public:
  struct Merge {
    uint32_t rank = kNoRank;  // the lowest one is applied first
    int32_t id = 0;           // of the merged token
  };
  static constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

  explicit PairTable(size_t most = 0) {
    size_t places = 16;
    while (places < 2 * most) places *= 2;
    places_.resize(places);
    seen_.resize(places / 8);  // 8 bits a place
    while (uint64_t{1} << (64 - shift_) < places) --shift_;
  }

  // No more pairs than the constructor was told. A pair that is there already gets the new merge.
  void Put(int32_t left, int32_t right, Merge merge) {
    const uint64_t key = Key(left, right), hash = Hash(key);
    seen_[BitOf(hash) / 64] |= uint64_t{1} << BitOf(hash) % 64;
    Place& place = places_[Find(key, hash)];
    place = {key, merge};
  }

  Merge Of(int32_t left, int32_t right) const {
    const uint64_t key = Key(left, right), hash = Hash(key);
    if ((seen_[BitOf(hash) / 64] >> BitOf(hash) % 64 & 1) == 0) return {};
    return places_[Find(key, hash)].merge;
  }

 private:
  static constexpr uint64_t kFree = std::numeric_limits<uint64_t>::max();  // a pair of two ids of -1
  struct Place {
    uint64_t key = kFree;
    Merge merge;
  };

  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  static uint64_t Hash(uint64_t key) {
    key *= 0x9E3779B97F4A7C15u;
    return (key ^ key >> 32) * 0xD1B54A32D192ED03u;
  }
  uint64_t BitOf(uint64_t hash) const { return hash >> (shift_ - 3); }
  size_t Find(uint64_t key, uint64_t hash) const {
    size_t at = hash >> shift_;
    while (places_[at].key != key && places_[at].key != kFree) at = (at + 1) & (places_.size() - 1);
    return at;
  }

  std::vector<Place> places_;
  std::vector<uint64_t> seen_;
  int shift_ = 63;
};

}  // namespace distill
