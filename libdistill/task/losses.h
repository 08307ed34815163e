// What one pass over one micro-batch gives: sums, and what each is a sum over. Means are made once, of the whole step.
//
//   return Losses{{"ce", cross_entropy_sum, num_tokens}};
//
// A loss term is divided by its own count over all micro-batches and ranks of the step:
//
//   loss of the step = sum over terms t of  weight_t * (sum of t over the step) / (count of t over the step)
//
// so that DistilBERT's KL, which counts tokens, and its MLM, which counts masked words, are both means, whatever
// padding, accumulation and the number of ranks are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

namespace distill {

// The counts of a step's loss terms are known before its first pass (MicroStep::counts), so each pass can be told what
// its sums are multiplied by.
struct PassScale {
  // Of each loss term, in the order of Task::LossTerms: its weight, times the count of the step's first term that
  // counts anything over its own. The gradients are divided by that count in the end. Empty: those of an evaluation,
  // all 1.
  std::vector<double> factors = {};
  // What the backward pass multiplies the loss by: 1 but in float16.
  double gradient_scale = 1;
  // How far the run is, by which schedules of the loss go: 0 at its first step, 1 at its last one, and in an
  // evaluation. The same on every rank, and in a run that was resumed.
  double progress = 1;

  double factor(size_t term) const { return factors.empty() ? 1 : factors[term]; }
};

struct LossTerm {
  std::string name;
  torch::Tensor sum;  // scalar, with gradients where it is a loss term; any device
  int64_t count = 0;  // what it is a sum over: tokens, masked words, rows
};

struct Losses {
  Losses() = default;
  Losses(std::initializer_list<LossTerm> terms) : terms(terms) {}  // NOLINT: to be returned as a braced list

  // The term of that name; null: there is none.
  const LossTerm* Find(const std::string& name) const {
    for (const LossTerm& term : terms) {
      if (term.name == name) return &term;
    }
    return nullptr;
  }

  std::vector<LossTerm> terms;  // the loss terms, and what else is reported; each name once
  // What the backward pass starts from, where the loss terms are not differentiated one by one: the sum over them of
  // PassScale::factor times their sums. Undefined: the trainer makes it out of `terms`.
  torch::Tensor total = {};
};

// The name and weight of a loss term.
struct TermWeight {
  std::string name;
  double weight = 1;  // as it is at PassScale::progress 1: of evaluations, and of all steps where it does not change
  // The weight at a progress, where it changes over a run; the same on every rank.
  std::function<double(double progress)> at = nullptr;

  double At(double progress) const { return at == nullptr ? weight : at(progress); }
};

// Whether there is a loss: where one of these counts of loss terms is not 0.
inline bool CountsAnything(const std::vector<int64_t>& counts) {
  return std::any_of(counts.begin(), counts.end(), [](int64_t count) { return count > 0; });
}

// What the weighted sum of the loss terms' means goes by, in records and metrics.
inline constexpr char kLossName[] = "loss";

struct LossOfMeans {
  double value = 0;
  size_t terms = 0;  // how many of them have a mean; the others, which counted nothing, add nothing
};

// The loss of a step, or of an evaluation, out of its means by name. `progress`: PassScale::progress.
inline LossOfMeans WeighMeans(const std::vector<TermWeight>& terms, const std::map<std::string, double>& means,
                              double progress = 1) {
  LossOfMeans loss;
  for (const TermWeight& term : terms) {
    const auto mean = means.find(term.name);
    if (mean == means.end()) continue;
    loss.value += term.At(progress) * mean->second;
    ++loss.terms;
  }
  return loss;
}

// Adds terms up by name, in float64, where they were computed: nothing waits for a device.
class TermSums {
 public:
  struct Sum {
    torch::Tensor sum;  // float64 scalar
    int64_t count = 0;
  };

  void Add(const LossTerm& term) {
    Sum& sum = sums_[term.name];
    const torch::Tensor value = term.sum.detach().to(torch::kFloat64);
    sum.sum = sum.sum.defined() ? sum.sum + value : value;
    sum.count += term.count;
  }
  const std::map<std::string, Sum>& sums() const { return sums_; }
  void Clear() { sums_.clear(); }

 private:
  std::map<std::string, Sum> sums_;
};

}  // namespace distill
