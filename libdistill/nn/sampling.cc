#include "libdistill/nn/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"

namespace distill {
namespace {

using Tokens = std::vector<TokenProbability>;

bool IsLikelier(const TokenProbability& a, const TokenProbability& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
}

// The least logit that top-k leaves.
float LeastKept(absl::Span<const float> logits, int64_t top_k) {
  std::vector<float> sorted(logits.begin(), logits.end());
  std::nth_element(sorted.begin(), sorted.begin() + top_k - 1, sorted.end(), std::greater<>());
  return sorted[top_k - 1];
}

// Leaves the fewest likeliest tokens that hold `share` of all. Few tokens usually hold most of it: sorts no more than
// it needs, a part that grows.
void KeepShare(double share, Tokens& tokens) {
  double total = 0;
  for (const TokenProbability& token : tokens) total += token.probability;
  double covered = 0;
  size_t kept = 0, sorted = 0;
  while (kept < tokens.size() && covered < share * total) {
    if (kept == sorted) {
      sorted = std::min(tokens.size(), std::max<size_t>(64, 8 * sorted));
      const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(kept);
      const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(sorted);
      if (end < tokens.end()) std::nth_element(begin, end - 1, tokens.end(), IsLikelier);
      std::sort(begin, end, IsLikelier);
    }
    covered += tokens[kept++].probability;
  }
  if (kept == 0) std::iter_swap(tokens.begin(), std::min_element(tokens.begin(), tokens.end(), IsLikelier));
  tokens.resize(std::max<size_t>(kept, 1));
}

absl::Status Wrong(const char* name, double value, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", expected ", expected));
}

}  // namespace

absl::Status CheckSampling(const SamplingOptions& o) {
  if (!(o.temperature >= 0) || std::isinf(o.temperature)) return Wrong("temperature", o.temperature, "at least 0");
  if (o.top_k < 0) return Wrong("top_k", static_cast<double>(o.top_k), "at least 0");
  if (!(o.top_p >= 0 && o.top_p <= 1)) return Wrong("top_p", o.top_p, "0 to 1");
  if (!(o.min_p >= 0 && o.min_p <= 1)) return Wrong("min_p", o.min_p, "0 to 1");
  if (!(o.repetition_penalty > 0) || std::isinf(o.repetition_penalty)) {
    return Wrong("repetition_penalty", o.repetition_penalty, "above 0 (1: none)");
  }
  return absl::OkStatus();
}

Tokens SamplingDistribution(absl::Span<const float> logits, const SamplingOptions& options) {
  const bool has_top_k = options.top_k > 0 && options.top_k < static_cast<int64_t>(logits.size());
  const float least = has_top_k ? LeastKept(logits, options.top_k) : -INFINITY;
  const float top = *std::max_element(logits.begin(), logits.end());
  Tokens tokens;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] < least) continue;
    const double weight = std::exp((static_cast<double>(logits[id]) - top) / options.temperature);
    // What is this unlikely is never drawn.
    if (weight > 0) tokens.push_back({static_cast<int32_t>(id), weight});
  }
  if (options.top_p < 1) KeepShare(options.top_p, tokens);
  if (options.min_p > 0) {
    // The likeliest one has the weight 1.
    const auto is_unlikely = [&](const TokenProbability& token) { return token.probability < options.min_p; };
    tokens.erase(std::remove_if(tokens.begin(), tokens.end(), is_unlikely), tokens.end());
  }
  double total = 0;
  for (const TokenProbability& token : tokens) total += token.probability;
  for (TokenProbability& token : tokens) token.probability /= total;
  return tokens;
}

int32_t Draw(absl::Span<const TokenProbability> tokens, Random& random) {
  double left = random.Uniform();
  for (const TokenProbability& token : tokens.first(tokens.size() - 1)) {
    left -= token.probability;
    if (left < 0) return token.id;
  }
  return tokens.back().id;
}

}  // namespace distill
