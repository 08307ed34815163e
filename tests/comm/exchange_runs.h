// Runs all ranks' lists of messages (comm/exchange.h) in one process, on integers, without a fabric.
#pragma once

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "libdistill/comm/exchange.h"

namespace distill::testing {

// A rank with its three buffers, and how far it is in its list. Averages: what is added last is divided.
struct ExchangeRun {
  ExchangePlan plan;
  std::map<ExchangeBuffer, std::vector<int64_t>> memory;
  size_t sent = 0, taken = 0, added = 0;

  // All elements are -1 at first.
  void Begin(ExchangePlan of_rank, int64_t input, int64_t result) {
    plan = std::move(of_rank);
    memory[ExchangeBuffer::kInput].assign(static_cast<size_t>(input), -1);
    memory[ExchangeBuffer::kResult].assign(static_cast<size_t>(result), -1);
    memory[ExchangeBuffer::kLanding].assign(static_cast<size_t>(plan.landing), -1);
  }
  bool Adds() const {
    return added < plan.reductions.size() && plan.reductions[added].incoming == static_cast<int64_t>(taken);
  }
  bool MayTake() const {
    const auto left = static_cast<int64_t>(sent);
    return plan.incoming[taken].after_outgoing <= left && (!Adds() || plan.reductions[added].after_outgoing <= left);
  }
  void Take(const std::vector<int64_t>& data, int ranks) {
    const ExchangeMessage& m = plan.incoming[taken];
    std::copy(data.begin(), data.end(), memory[m.buffer].begin() + m.first);
    if (Adds()) Add(ranks);
    ++taken;
  }
  void Add(int ranks) {
    const ExchangeReduction& r = plan.reductions[added++];
    for (int64_t i = 0; i < r.count; ++i) {
      int64_t sum = memory[r.own][static_cast<size_t>(r.own_first + i)];
      for (int s = 0; s < r.sources; ++s) {
        sum += memory[ExchangeBuffer::kLanding][static_cast<size_t>(r.landing_first + s * r.landing_stride + i)];
      }
      memory[r.into][static_cast<size_t>(r.result_first + i)] = r.last ? sum / ranks : sum;
    }
  }
};

// Element i of what a rank gives: another one for each rank and place.
inline int64_t ValueOf(int rank, int64_t i) { return 1000 * (rank + 1) + i * i; }

// One rank after the other, until nothing moves: whether all came to their end.
inline bool RunAll(std::vector<ExchangeRun>& runs) {
  std::map<std::tuple<int, int, uint32_t>, std::vector<int64_t>> under_way;
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < static_cast<int>(runs.size()); ++rank) {
      ExchangeRun& self = runs[static_cast<size_t>(rank)];
      for (; self.taken < self.plan.incoming.size(); moved = true) {
        const ExchangeMessage& m = self.plan.incoming[self.taken];
        const auto here = under_way.find({m.peer, rank, m.number});
        if (here == under_way.end() || !self.MayTake()) break;
        self.Take(here->second, static_cast<int>(runs.size()));
        under_way.erase(here);
      }
      for (; self.sent < self.plan.outgoing.size(); ++self.sent, moved = true) {
        const ExchangeMessage& m = self.plan.outgoing[self.sent];
        if (m.after_incoming > static_cast<int64_t>(self.taken)) break;
        const auto begin = self.memory[m.buffer].begin() + m.first;
        under_way[{rank, m.peer, m.number}] = std::vector<int64_t>(begin, begin + m.count);
      }
    }
  }
  return std::all_of(runs.begin(), runs.end(), [](const ExchangeRun& r) {
    return r.sent == r.plan.outgoing.size() && r.taken == r.plan.incoming.size();
  });
}

}  // namespace distill::testing
