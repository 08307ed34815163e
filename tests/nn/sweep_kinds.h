// Loops of every kind of CPU that this one can run; a test of the others would be ended by the first wide instruction.
#pragma once

#include <string>
#include <vector>

#include "libdistill/core/vectors.h"

namespace distill {

template <typename Sweeps>
struct SweepKind {
  std::string name;
  const Sweeps& of;
};

template <typename Sweeps>
std::vector<SweepKind<Sweeps>> KindsOfThisCpu(const Sweeps& plain, [[maybe_unused]] const Sweeps& avx2,
                                              [[maybe_unused]] const Sweeps& avx512) {
  std::vector<SweepKind<Sweeps>> kinds = {{"plain", plain}};
  if (VectorsOfThisCpu() != Vectors::kPlain) kinds.push_back({"avx2", avx2});
  if (VectorsOfThisCpu() == Vectors::kAvx512) kinds.push_back({"avx512", avx512});
  return kinds;
}

// Of NAMEPlain, NAMEAvx2 and NAMEAvx512; there is but the first on other machines than x86-64.
#if defined(__x86_64__)
#define DISTILL_KINDS_OF_THIS_CPU(NAME) ::distill::KindsOfThisCpu(NAME##Plain, NAME##Avx2, NAME##Avx512)
#else
#define DISTILL_KINDS_OF_THIS_CPU(NAME) ::distill::KindsOfThisCpu(NAME##Plain, NAME##Plain, NAME##Plain)
#endif

}  // namespace distill
