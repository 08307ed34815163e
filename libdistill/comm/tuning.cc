// The cost of each algorithm, from what it sends: a (latency) for each message that waits for the one before, g (gap)
// for each that goes at the same time, b = 1 / bandwidth for each byte that passes a host's link one way, c for each
// byte added. n ranks, h hosts, l ranks on a host, whose link they share; S bytes; p the largest power of two up to n.
//   ring                2(n-1) a                          + 2(n-1)/n x S b        + (n-1)/n S c
//   recursive doubling  (log2 p + f) a                    + (log2 p + f) l S b    + log2 n S c     f = 2 unless n = p
//   direct exchange     2 a + 2 m g + the longer of 2(n-2-m) g and 2(n-1)/n l S b   + (n-1)/n S c  m = min(n-2, 8)
//   Rabenseifner        (2 log2 p + f) a                  + (2(p-1)/p + f) l S b  + (p-1)/p S c
//   chain               (n-1) a                           + x S b + (n-2) C b     + S c + (n-2) C c
//   binomial tree       d a + (r-d) g                     + r l S b               + r S c
//   binary tree         d (a + g)                         + 2 l S b + 2 (d-1) C b + S c + (d-1) C c
//   hierarchical        2 a of memory, and the longer of 2 S b of memory (inside) and the best of the above for h ranks
//                       (across): the two run at the same time, segment by segment
// Chain and trees are for a broadcast, where nothing is added, and a reduce; a rank of the binary tree adds both its
// children's chunks at once. d = floor(log2 n), r = ceil(log2 n), C is S or a chunk, whichever is smaller.
// Bytes count more where links idle between steps or several ranks send to one: ring 1.1, recursive doubling 1.2,
// direct exchange 1.4, Rabenseifner 1.8 times, between what links of 1 and of 10 Gbit/s showed (docs/collectives.md);
// the chain is taken to be as the ring, trees as recursive doubling. A flat ring in the order of the hosts crosses each
// link once each way (x = 1), however many ranks are on a host. The costs that start higher grow more slowly in the
// end, so that the choice moves on from algorithm to algorithm. A cost that grows more slowly once a chunk is full, as
// the chain's and the binary tree's do, could lead it back, as could two levels: by the built-in tables no call's does
// (tuning_test.cc). Of more than eight messages at a time a rank's thread starts one while others are on
// the wire: for few, sums are what was measured; for many hosts virtual time shows the longer of the two
// (docs/collectives.md, "At 64 hosts").
#include "libdistill/comm/tuning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/comm/fabric_cut.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr CommAlgorithm kAlgorithms[] = {CommAlgorithm::kRecursiveDoubling, CommAlgorithm::kDirectExchange,
                                         CommAlgorithm::kRabenseifner,      CommAlgorithm::kRing,
                                         CommAlgorithm::kBinomialTree,      CommAlgorithm::kBinaryTree,
                                         CommAlgorithm::kHierarchical};

// More peers at once than this would need too much memory to land in (DirectChunkBytes). An all-reduce among more than
// the first has other ways of few steps.
constexpr int kMostDirectRanks = 256;
constexpr int kMostDirectHalfRanks = 512;  // of a reduce-scatter or an all-gather

// A call's cost: microseconds at 0 bytes, those that hide behind the wire, of each byte on it and added, and of each
// byte of the first chunk on its way along a chain or down a tree, where nothing else is under way yet.
struct Line {
  double start = 0;
  double hidden = 0;
  double slope = 0;
  double adds = 0;
  double first_chunk = 0;
};

int Log2(int n) {
  int rounds = 0;
  while (2 << rounds <= n) ++rounds;
  return rounds;
}

// What each rank moves, as shares of the call's bytes.
struct Moves {
  double messages = 0;  // one after the other
  double at_once = 0;   // beside those
  double sent = 0;      // bytes through its host's link, more where it is not used well
  double added = 0;
  double first_chunk = 0;        // hops of the first chunk beside those, one after the other
  double first_chunk_added = 0;  // and additions of it
};

// The chain uses its links as the ring does, a tree as recursive doubling does: that is assumed.
Moves OneWayMovesOf(CommAlgorithm algorithm, CommOperation operation, const CommLayout& layout) {
  const double n = layout.ranks;
  const double sharing = layout.hosts > 1 ? layout.ranks_per_host : 1;
  const double adds = operation == CommOperation::kReduce ? 1 : 0;
  // Of both trees in messages, and how many children the binomial tree's root has.
  const double depth = Log2(layout.ranks);
  const double rounds = depth + (1 << Log2(layout.ranks) < layout.ranks ? 1 : 0);
  switch (algorithm) {
    case CommAlgorithm::kRing:
      return {n - 1, 0, 1.1 * layout.crossings, adds, n - 2, adds * (n - 2)};
    case CommAlgorithm::kBinomialTree:
      return {depth, rounds - depth, 1.2 * rounds * sharing, adds * rounds};
    case CommAlgorithm::kBinaryTree:
      return {depth, depth, 1.2 * 2 * sharing, adds, 2 * (depth - 1), adds * (depth - 1)};
    default:
      return {};
  }
}

Moves MovesOf(CommAlgorithm algorithm, CommOperation operation, const CommLayout& layout) {
  if (HasRoot(operation)) return OneWayMovesOf(algorithm, operation, layout);
  const double n = layout.ranks;
  const double sharing = layout.hosts > 1 ? layout.ranks_per_host : 1;
  const double halves = operation == CommOperation::kAllReduce ? 2 : 1;
  const double others = (n - 1) / n;
  const double adds = operation == CommOperation::kAllGather ? 0 : 1;
  const double rounds = Log2(layout.ranks);
  const double power = static_cast<double>(1 << Log2(layout.ranks));
  const double folds = power == n ? 0 : 2;
  switch (algorithm) {
    case CommAlgorithm::kRing:
      return {halves * (n - 1), 0, 1.1 * halves * others * layout.crossings, adds * others};
    case CommAlgorithm::kRecursiveDoubling:
      return {rounds + folds, 0, 1.2 * (rounds + folds) * sharing, rounds + folds / 2};
    case CommAlgorithm::kDirectExchange:
      return {halves, halves * (n - 2), 1.4 * halves * others * sharing, adds * others};
    case CommAlgorithm::kRabenseifner:
      return {2 * rounds + folds, 0, 1.8 * (2 * (power - 1) / power + folds) * sharing,
              (power - 1) / power + folds / 2};
    default:
      break;
  }
  return {};
}

Line FlatLine(CommAlgorithm algorithm, CommOperation operation, const CommLayout& layout, const CostTable& table) {
  const Moves moves = MovesOf(algorithm, operation, layout);
  const LinkCost& link = table.network;
  constexpr double kVisible = 8;
  const double visible = std::min(moves.at_once, kVisible * moves.messages);
  const double byte_us = 1 / (link.gigabytes_per_second * 1e3);
  const double addition_us = 1 / (table.reduction_gigabytes_per_second * 1e3);
  return {.start = moves.messages * link.latency_us + visible * link.gap_us,
          .hidden = (moves.at_once - visible) * link.gap_us,
          .slope = moves.sent * byte_us,
          .adds = moves.added * addition_us,
          .first_chunk = moves.first_chunk * byte_us + moves.first_chunk_added * addition_us};
}

double At(const Line& line, int64_t bytes) {
  const auto all = static_cast<double>(bytes);
  const double chunk = std::min(all, static_cast<double>(kFabricChunkBytes));
  return line.start + std::max(line.hidden, line.slope * all) + line.adds * all + line.first_chunk * chunk;
}

// Every local rank reduces and passes on its share at the same time; together they use the link as one rank would.
double HierarchicalMicroseconds(CommOperation operation, int64_t bytes, const CommLayout& layout,
                                const CostTable& table) {
  const LinkCost& memory = table.shared_memory;
  const Line inside = {.slope = 2 / (memory.gigabytes_per_second * 1e3)};
  const CommLayout across = {layout.hosts, layout.hosts, 1};
  double best = std::numeric_limits<double>::infinity();
  for (const CommAlgorithm algorithm : kAlgorithms) {
    if (algorithm == CommAlgorithm::kHierarchical || !CanRun(algorithm, operation, across)) continue;
    best = std::min(best, At(FlatLine(algorithm, operation, across, table), bytes));
  }
  return 2 * memory.latency_us + std::max(At(inside, bytes), layout.hosts > 1 ? best : 0.0);
}

std::string SizeText(int64_t bytes) {
  if (bytes % (1 << 20) == 0) return absl::StrCat(bytes >> 20, " MiB");
  if (bytes % (1 << 10) == 0) return absl::StrCat(bytes >> 10, " KiB");
  return absl::StrCat(bytes, " B");
}

}  // namespace

std::string NameOf(CommAlgorithm algorithm) { return FieldText(PreferenceFor(algorithm)); }

std::vector<CostField> FieldsOf(CostTable& table) {
  std::vector<CostField> fields;
  const std::pair<const char*, LinkCost*> links[] = {{"shared_memory", &table.shared_memory},
                                                     {"network", &table.network}};
  for (const auto& [name, link] : links) {
    fields.push_back({name, "latency_us", &link->latency_us, true});
    fields.push_back({name, "gap_us", &link->gap_us, true});
    fields.push_back({name, "gigabytes_per_second", &link->gigabytes_per_second, false});
  }
  fields.push_back({"", "reduction_gigabytes_per_second", &table.reduction_gigabytes_per_second, false});
  return fields;
}

std::string CostTable::Encode() const {
  CostTable table = *this;
  const auto number = [](std::string* out, const CostField& field) {
    absl::StrAppendFormat(out, "%.17g", *field.value);
  };
  return absl::StrJoin(FieldsOf(table), " ", number);
}

absl::StatusOr<CostTable> CostTable::Decode(const std::string& text) {
  CostTable table;
  const std::vector<CostField> fields = FieldsOf(table);
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  bool read = words.size() == fields.size();
  for (size_t i = 0; read && i < words.size(); ++i) read = absl::SimpleAtod(words[i], fields[i].value);
  if (!read) return absl::InvalidArgumentError(absl::StrCat("not a table of costs: '", text, "'"));
  DISTILL_RETURN_IF_ERROR(CheckTable(table));
  return table;
}

absl::Status CheckTable(CostTable table) {
  for (const CostField& field : FieldsOf(table)) {
    const double value = *field.value;
    if (std::isfinite(value) && (value > 0 || (field.may_be_zero && value == 0))) continue;
    return absl::InvalidArgumentError(absl::StrCat(field.link, *field.link == '\0' ? "" : ": ", field.name, " must be ",
                                                   field.may_be_zero ? "at least 0" : "above 0", " and finite, not ",
                                                   value));
  }
  return absl::OkStatus();
}

CommLayout LayoutOf(const HostLayout& hosts) {
  std::vector<int> leaves(static_cast<size_t>(hosts.hosts()), 0);
  for (int rank = 0; rank < hosts.ranks(); ++rank) {
    const int here = hosts.HostOf(rank);
    if (hosts.HostOf((rank + 1) % hosts.ranks()) != here) ++leaves[static_cast<size_t>(here)];
  }
  const int crossings = std::max(1, *std::max_element(leaves.begin(), leaves.end()));
  return {hosts.ranks(), hosts.hosts(), hosts.most(), crossings};
}

bool CanRun(CommAlgorithm algorithm, CommOperation operation, const CommLayout& layout) {
  if (algorithm == CommAlgorithm::kRing) return true;
  if (algorithm == CommAlgorithm::kBinomialTree || algorithm == CommAlgorithm::kBinaryTree) {
    return HasRoot(operation) && layout.ranks > 2;  // of two ranks the chain is the tree
  }
  if (HasRoot(operation) && algorithm != CommAlgorithm::kHierarchical) return false;
  if (algorithm == CommAlgorithm::kDirectExchange) {
    return layout.ranks <= (operation == CommOperation::kAllReduce ? kMostDirectRanks : kMostDirectHalfRanks);
  }
  if (algorithm == CommAlgorithm::kHierarchical) return layout.hosts > 1 && layout.ranks_per_host > 1;
  return operation == CommOperation::kAllReduce;
}

double PredictMicroseconds(CommAlgorithm algorithm, CommOperation operation, int64_t bytes, const CommLayout& layout,
                           const CostTable& table) {
  if (algorithm == CommAlgorithm::kHierarchical) return HierarchicalMicroseconds(operation, bytes, layout, table);
  return At(FlatLine(algorithm, operation, layout, table), bytes);
}

CommAlgorithm CommTuning::Choose(CommOperation operation, int64_t bytes, const CommLayout& layout,
                                 bool flat_only) const {
  flat_only = flat_only || preference_ == AlgorithmPreference::kFlat;
  CommAlgorithm best = CommAlgorithm::kRing;
  double least = std::numeric_limits<double>::infinity();
  for (const CommAlgorithm algorithm : kAlgorithms) {
    if (!CanRun(algorithm, operation, layout)) continue;
    if (flat_only && algorithm == CommAlgorithm::kHierarchical) continue;
    if (preference_ == PreferenceFor(algorithm)) return algorithm;
    const double time = PredictMicroseconds(algorithm, operation, bytes, layout, table_);
    if (time < least) {
      least = time;
      best = algorithm;
    }
  }
  return best;
}

bool CommTuning::TakesLevels(CommOperation operation, int64_t bytes, const CommLayout& layout) const {
  if (preference_ != AlgorithmPreference::kAuto) {
    return preference_ != AlgorithmPreference::kFlat && CanRun(CommAlgorithm::kHierarchical, operation, layout);
  }
  return Choose(operation, bytes, layout) == CommAlgorithm::kHierarchical;
}

std::string CommTuning::Describe(CommOperation operation, const CommLayout& layout, bool flat_only) const {
  constexpr int64_t kLargest = int64_t{1} << 30;
  std::string text;
  for (int64_t bytes = 4; bytes < kLargest; bytes *= 2) {
    const CommAlgorithm here = Choose(operation, bytes, layout, flat_only);
    if (here == Choose(operation, 2 * bytes, layout, flat_only)) continue;
    absl::StrAppend(&text, NameOf(here), " up to ", SizeText(bytes), ", ");
  }
  const std::string last = NameOf(Choose(operation, kLargest, layout, flat_only));
  return text.empty() ? last : absl::StrCat(text, last, " above");
}

}  // namespace distill
