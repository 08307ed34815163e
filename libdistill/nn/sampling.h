// From a row of logits to the tokens that may be drawn and their probabilities, by transformers' rules and in its
// order: repetition penalty, temperature, top-k, top-p, min-p (transformers/generation/logits_process.py).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace distill {

class Random;

struct SamplingOptions {
  double temperature = 0.0;  // 0: greedy, the most likely token each time
  int64_t top_k = 0;         // the k likeliest, and those as likely as the last of them; 0: all
  double top_p = 1.0;        // the fewest likeliest tokens that hold this share of what top-k leaves; at least one
  double min_p = 0.0;        // those that have at least this share of the likeliest one's probability
  // Logits of tokens that prompt or answer hold already are divided by it where they are above 0, and multiplied where
  // below (Keskar et al. 2019, arXiv:1909.05858, section 4.1). 1: none. Counts in greedy answers, too.
  double repetition_penalty = 1.0;
};

// InvalidArgument names the option whose value is out of its range.
[[nodiscard]] absl::Status CheckSampling(const SamplingOptions& options);

struct TokenProbability {
  int32_t id;
  double probability;
};

// The tokens that may be drawn, whose probabilities sum to 1; in no particular order. `logits` are one row, penalised
// already; options.temperature is above 0. Empty where no token can be drawn, since logits are no numbers. Takes a few
// passes over the row.
std::vector<TokenProbability> SamplingDistribution(absl::Span<const float> logits, const SamplingOptions& options);

// One of them.
int32_t Draw(absl::Span<const TokenProbability> tokens, Random& random);

}  // namespace distill
