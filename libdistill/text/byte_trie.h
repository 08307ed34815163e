// A trie of byte strings with numbers, in one array: a step down is one look at it (double array, Aoe 1989).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace distill {

class ByteTrie {
 public:
  // Strings that differ from each other and are not empty, of which nothing is kept; values of 0 and more.
  using Entries = std::vector<std::pair<absl::string_view, int32_t>>;
  explicit ByteTrie(Entries entries);

  static constexpr int32_t kRoot = 0, kNone = -1;
  // The node that `byte` leads to; kNone: no string goes on so.
  int32_t Next(int32_t node, uint8_t byte) const {
    const int32_t next = units_[node].base + byte;
    return units_[next].parent == node ? next : kNone;
  }
  // Of the string that ends here; kNone: none does.
  int32_t ValueAt(int32_t node) const { return units_[node].value; }

 private:
  struct Unit {
    int32_t base = 0;        // child of byte b: base + b
    int32_t parent = kNone;  // kNone: the unit is free
    int32_t value = kNone;
  };

  // Gives `node` the strings [begin, end), which agree in their first `depth` bytes.
  void Place(const Entries& entries, size_t begin, size_t end, size_t depth, int32_t node);
  int32_t FindBase(const std::vector<uint8_t>& bytes);

  std::vector<Unit> units_;
  size_t first_free_ = 1;
};

}  // namespace distill
