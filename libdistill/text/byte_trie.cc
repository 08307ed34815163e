#include "libdistill/text/byte_trie.h"

#include <algorithm>

namespace distill {
namespace {

constexpr size_t kBytes = 256;
constexpr int kMaxLooks = 512;  // then holes before this place are given up

}  // namespace

ByteTrie::ByteTrie(Entries entries) : units_(1 + 2 * kBytes) {
  std::sort(entries.begin(), entries.end());
  units_[kRoot].parent = kRoot;
  Place(entries, 0, entries.size(), 0, kRoot);
  while (units_.back().parent == kNone) units_.pop_back();
  units_.resize(units_.size() + kBytes);  // so that base + byte always is in the array
  units_.shrink_to_fit();
}

void ByteTrie::Place(const Entries& entries, size_t begin, size_t end, size_t depth, int32_t node) {
  const auto byte_of = [&](size_t i) { return static_cast<uint8_t>(entries[i].first[depth]); };
  std::vector<uint8_t> bytes;
  for (;; ++depth) {
    if (begin < end && entries[begin].first.size() == depth) units_[node].value = entries[begin++].second;
    if (begin == end) return;
    bytes.clear();
    for (size_t i = begin; i < end; ++i) {
      if (bytes.empty() || bytes.back() != byte_of(i)) bytes.push_back(byte_of(i));
    }
    const int32_t base = FindBase(bytes);
    units_[node].base = base;
    for (const uint8_t byte : bytes) units_[base + byte].parent = node;
    node = base + bytes[0];
    if (bytes.size() > 1) break;  // else here, as a long string would need as deep a stack
  }
  for (const uint8_t byte : bytes) {
    size_t last = begin;
    while (last < end && byte_of(last) == byte) ++last;
    Place(entries, begin, last, depth + 1, node - bytes[0] + byte);
    begin = last;
  }
}

int32_t ByteTrie::FindBase(const std::vector<uint8_t>& bytes) {
  const auto is_free = [this](size_t unit) { return units_[unit].parent == kNone; };
  while (first_free_ < units_.size() && !is_free(first_free_)) ++first_free_;
  int looked_at = 0;
  for (size_t at = std::max<size_t>(first_free_, bytes[0] + size_t{1});; ++at) {
    if (at + kBytes >= units_.size()) units_.resize(2 * units_.size());
    if (++looked_at == kMaxLooks) first_free_ = at;
    if (!is_free(at)) continue;
    const size_t base = at - bytes[0];
    if (std::all_of(bytes.begin(), bytes.end(), [&](uint8_t byte) { return is_free(base + byte); })) {
      return static_cast<int32_t>(base);
    }
  }
}

}  // namespace distill
