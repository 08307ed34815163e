// Which algorithm carries out a collective: what messages, bytes and additions cost, and the choice by it.
//
//   CommTuning tuning;   // tcp's table, everything automatic; in a job the same on every rank
//   switch (tuning.Choose(CommOperation::kAllReduce, bytes, {.ranks = 8, .hosts = 4, .ranks_per_host = 2})) ...
//
// The choice is a pure function of its arguments, the table and the preference, which are the same on every rank: so
// all come to the same. Internal to comm/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/host_layout.h"
#include "libdistill/comm/preferences.h"

namespace distill {

// kHierarchical works inside the hosts first; the others are flat: ranks are ranks, wherever they are. For a broadcast
// and a reduce kRing is the chain of all ranks.
enum class CommAlgorithm : uint8_t {
  kRecursiveDoubling = static_cast<uint8_t>(AlgorithmPreference::kRecursiveDoubling),
  kDirectExchange,
  kRabenseifner,
  kBinomialTree,
  kBinaryTree,
  kRing,
  kHierarchical
};

// What asks for this algorithm: the same number.
constexpr AlgorithmPreference PreferenceFor(CommAlgorithm algorithm) {
  return static_cast<AlgorithmPreference>(algorithm);
}
static_assert(PreferenceFor(CommAlgorithm::kHierarchical) == AlgorithmPreference::kHierarchical);
// "recursive_doubling", ...: the preference's name.
std::string NameOf(CommAlgorithm algorithm);

// Whether there is a choice; what else there is has one way over the fabric.
constexpr bool HasAlgorithms(CommOperation operation) {
  return operation == CommOperation::kAllReduce || operation == CommOperation::kReduceScatter ||
         operation == CommOperation::kAllGather || HasRoot(operation);
}

// Messages between two ranks at one place, after Hockney's model: time = latency + bytes / bandwidth.
struct LinkCost {
  double latency_us = 0;            // of one small message, from its sender's call to its receiver's return
  double gap_us = 0;                // of each further message that a rank sends or receives at the same time
  double gigabytes_per_second = 1;  // of a long message, one way
  bool operator==(const LinkCost&) const = default;
};

struct CostTable {
  LinkCost shared_memory = {0.3, 0.1, 8.0};
  LinkCost network = {25.0, 5.0, 1.2};
  double reduction_gigabytes_per_second = 10;  // of one source that is added to another

  // One line of text and back: how rank 0's table reaches the others. InvalidArgument: not such a line.
  std::string Encode() const;
  [[nodiscard]] static absl::StatusOr<CostTable> Decode(const std::string& text);
  bool operator==(const CostTable&) const = default;
};

// InvalidArgument names the number that is not positive (latencies and gaps: negative) or not finite.
[[nodiscard]] absl::Status CheckTable(CostTable table);

struct CostField {
  const char* link;  // "shared_memory", "network", or empty for what is of neither
  const char* name;
  double* value;
  bool may_be_zero;
};

// All numbers of a table, in the order of its line of text and its file.
std::vector<CostField> FieldsOf(CostTable& table);

// Who takes part, the same on every rank.
struct CommLayout {
  int ranks = 1;
  int hosts = 1;
  int ranks_per_host = 1;  // on the host that has most
  int crossings = 1;       // how often a ring in the order of the ranks leaves the host that it leaves most often
};

CommLayout LayoutOf(const HostLayout& hosts);

// Whether the algorithm can carry out the operation at all among such ranks.
bool CanRun(CommAlgorithm algorithm, CommOperation operation, const CommLayout& layout);

// Microseconds for `bytes` of result of an all-reduce, a broadcast or a reduce; for reduce-scatter and all-gather, of
// all ranks' blocks together.
double PredictMicroseconds(CommAlgorithm algorithm, CommOperation operation, int64_t bytes, const CommLayout& layout,
                           const CostTable& table);

class CommTuning {
 public:
  CommTuning() = default;
  // A table that the user gave.
  CommTuning(const CostTable& table, AlgorithmPreference preference)
      : table_(table), preference_(preference), was_given_(true) {}
  // None was given: tcp's holds until it is known what joins the hosts.
  explicit CommTuning(AlgorithmPreference preference) : preference_(preference) {}
  bool was_given() const { return was_given_; }
  // `source`: where the table is from, for the log. Every rank passes the same.
  void UseWhereNoneWasGiven(const CostTable& table, const std::string& source) {
    if (was_given_) return;
    table_ = table;
    source_ = source;
  }

  // `flat_only`: as kFlat does, for the parts of a hierarchical call and where there is no such communicator.
  CommAlgorithm Choose(CommOperation operation, int64_t bytes, const CommLayout& layout, bool flat_only = false) const;
  // Whether a call goes in two levels, where there are two; else flat between all ranks.
  bool TakesLevels(CommOperation operation, int64_t bytes, const CommLayout& layout) const;
  // "recursive_doubling up to 16 KiB, direct_exchange up to 256 KiB, ring above".
  std::string Describe(CommOperation operation, const CommLayout& layout, bool flat_only = false) const;

  const CostTable& table() const { return table_; }
  AlgorithmPreference preference() const { return preference_; }
  // Of which fabric the built-in table is, where none was given.
  const std::string& source() const { return source_; }

 private:
  CostTable table_;
  AlgorithmPreference preference_ = AlgorithmPreference::kAuto;
  bool was_given_ = false;
  std::string source_ = "tcp";
};

}  // namespace distill
