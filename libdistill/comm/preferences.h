// What a rank asks for before the ranks agree on how their collectives are carried out.
#pragma once

#include "libdistill/core/describe.h"

namespace distill {

// kHierarchical: two levels, over NCCL or shared memory inside a host and over the fabric between hosts.
enum class BackendPreference { kAuto, kShm, kFabric, kHierarchical, kMpi, kNccl };
constexpr EnumNames<BackendPreference, 6> NamesOf(BackendPreference) {
  return {{{"auto", BackendPreference::kAuto},
           {"shm", BackendPreference::kShm},
           {"fabric", BackendPreference::kFabric},
           {"hierarchical", BackendPreference::kHierarchical},
           {"mpi", BackendPreference::kMpi},
           {"nccl", BackendPreference::kNccl}}};
}

// kAuto: the least time of all; kFlat: of all but kHierarchical. An algorithm is taken wherever it can run, a flat one
// inside the lanes of two levels; an operation that it cannot carry out is chosen as under kAuto.
enum class AlgorithmPreference {
  kAuto,
  kFlat,
  kRecursiveDoubling,
  kDirectExchange,
  kRabenseifner,
  kBinomialTree,
  kBinaryTree,
  kRing,
  kHierarchical
};
constexpr EnumNames<AlgorithmPreference, 9> NamesOf(AlgorithmPreference) {
  return {{{"auto", AlgorithmPreference::kAuto},
           {"flat", AlgorithmPreference::kFlat},
           {"recursive_doubling", AlgorithmPreference::kRecursiveDoubling},
           {"direct_exchange", AlgorithmPreference::kDirectExchange},
           {"rabenseifner", AlgorithmPreference::kRabenseifner},
           {"binomial_tree", AlgorithmPreference::kBinomialTree},
           {"binary_tree", AlgorithmPreference::kBinaryTree},
           {"ring", AlgorithmPreference::kRing},
           {"hierarchical", AlgorithmPreference::kHierarchical}}};
}

}  // namespace distill
