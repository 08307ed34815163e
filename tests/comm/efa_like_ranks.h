// The comm tests' ranks over the fabric like efa (efa_like_fabric.h): with DISTILL_TEST_EFA_LIKE=RAILS in the
// environment, the ranks of a program that links distill_test_efa_like have it, with so many rails each.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace distill::testing {

// What the variable says; null: the ranks are over libfabric as it is.
inline const char* EfaLikeRails() { return std::getenv("DISTILL_TEST_EFA_LIKE"); }

// How many of so many calls in a row to make: a call takes ten times as long there.
inline int64_t CallsInARow(int64_t calls) { return EfaLikeRails() == nullptr ? calls : calls / 5; }

// Of so many numbers of ranks in ascending order those to try: every third there.
inline std::vector<int> RanksToTry(std::vector<int> all) {
  if (EfaLikeRails() == nullptr) return all;
  std::vector<int> some;
  for (size_t i = 0; i < all.size(); i += 3) some.push_back(all[i]);
  return some;
}

}  // namespace distill::testing
