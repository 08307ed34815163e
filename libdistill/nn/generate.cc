#include "libdistill/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "libdistill/core/random.h"
#include "libdistill/nn/key_value_cache.h"

namespace distill {
namespace {

using torch::Tensor;

// Of a batch; they bound the memory of the prompts' pass and of the cache.
constexpr size_t kMaxRows = 256;
constexpr size_t kMaxTokens = 16384;

// One id out of a row of logits, by the usual order: temperature, top-k, top-p.
int32_t Sample(const float* logits, int64_t vocabulary, const GenerateOptions& options, Random& random) {
  std::vector<int32_t> ids(vocabulary);
  std::iota(ids.begin(), ids.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  const bool keeps_all = options.top_k <= 0 && options.top_p >= 1.0;
  size_t kept = options.top_k > 0 ? std::min<size_t>(options.top_k, ids.size()) : ids.size();
  if (!keeps_all) std::partial_sort(ids.begin(), ids.begin() + kept, ids.end(), likelier);
  const float top = *std::max_element(logits, logits + vocabulary);
  std::vector<double> weights(kept);
  double total = 0.0;
  for (size_t i = 0; i < kept; ++i) total += weights[i] = std::exp((logits[ids[i]] - top) / options.temperature);
  if (options.top_p < 1.0) {
    double covered = 0.0;
    size_t needed = 0;
    while (needed < kept && covered < options.top_p * total) covered += weights[needed++];
    kept = std::max<size_t>(needed, 1);
    total = std::accumulate(weights.begin(), weights.begin() + kept, 0.0);
  }
  double left = random.Uniform() * total;
  for (size_t i = 0; i + 1 < kept; ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids[kept - 1];
}

// Continues prompts together; `numbers` are their places among all prompts.
class Batch {
 public:
  Batch(Decoder& model, const std::vector<std::vector<int32_t>>& prompts, std::vector<size_t> numbers,
        const GenerateOptions& options)
      : model_(model), options_(options), cache_(model.config()), active_(std::move(numbers)) {
    for (const size_t number : active_) next_.push_back(prompts[number]);
    // A generator for each prompt: what it gets does not depend on what shares its batch.
    for (const size_t number : active_) randoms_.emplace_back(options.seed, number);
  }

  void Run(std::vector<std::vector<int32_t>>& answers) {
    const auto& stops = options_.stop_ids;
    for (int64_t step = 0; step < options_.max_new_tokens && !active_.empty(); ++step) {
      const std::vector<int32_t> chosen = Choose(Logits());
      // From the last row on, since it is the last one that takes the place of a row that ends.
      for (size_t row = chosen.size(); row-- > 0;) {
        answers[active_[row]].push_back(chosen[row]);
        next_[row] = {chosen[row]};
        if (std::find(stops.begin(), stops.end(), chosen[row]) != stops.end()) Drop(row);
      }
    }
  }

 private:
  // [B, V] for the token after the last, scaled and capped as the model has it.
  Tensor Logits() {
    const Tensor last = model_.LastHidden(next_, cache_);
    const Tensor weight = model_.head_weight();
    const int64_t vocabulary = options_.vocabulary > 0 ? options_.vocabulary : weight.size(0);
    Tensor logits = at::mm(last, weight.narrow(0, 0, vocabulary).t());
    if (model_.head_bias().defined()) logits.add_(model_.head_bias().narrow(0, 0, vocabulary));
    logits = logits.to(torch::kFloat32);
    if (model_.logit_scale() != 1) logits.mul_(model_.logit_scale());
    const double softcap = model_.logit_softcap();
    return softcap > 0 ? logits.div_(softcap).tanh_().mul_(softcap) : logits;
  }

  std::vector<int32_t> Choose(const Tensor& logits) {
    std::vector<int32_t> chosen(active_.size());
    if (options_.temperature <= 0) {
      const Tensor best = logits.argmax(1).to(torch::kCPU);
      std::copy_n(best.const_data_ptr<int64_t>(), chosen.size(), chosen.begin());
      return chosen;
    }
    const Tensor host = logits.to(torch::kCPU).contiguous();
    const int64_t vocabulary = host.size(1);
    for (size_t row = 0; row < chosen.size(); ++row) {
      chosen[row] = Sample(host.const_data_ptr<float>() + row * vocabulary, vocabulary, options_, randoms_[row]);
    }
    return chosen;
  }

  void Drop(size_t row) {
    active_[row] = active_.back(), active_.pop_back();
    randoms_[row] = randoms_.back(), randoms_.pop_back();
    std::swap(next_[row], next_.back()), next_.pop_back();
    cache_.DropRow(static_cast<int64_t>(row));
  }

  Decoder& model_;
  const GenerateOptions& options_;
  KeyValueCache cache_;
  std::vector<size_t> active_;  // the prompt of each row that has not ended
  std::vector<Random> randoms_;
  std::vector<std::vector<int32_t>> next_;  // the tokens of each row that the model has not seen yet
};

// Prompts of about the same length together, the short ones first.
std::vector<std::vector<size_t>> CutIntoBatches(const std::vector<std::vector<int32_t>>& prompts) {
  std::vector<size_t> numbers(prompts.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::stable_sort(numbers.begin(), numbers.end(),
                   [&](size_t a, size_t b) { return prompts[a].size() < prompts[b].size(); });
  std::vector<std::vector<size_t>> batches;
  for (const size_t number : numbers) {
    const bool has_room = !batches.empty() && batches.back().size() < kMaxRows &&
                          (batches.back().size() + 1) * prompts[number].size() <= kMaxTokens;
    if (!has_room) batches.emplace_back();
    batches.back().push_back(number);
  }
  return batches;
}

}  // namespace

std::vector<std::vector<int32_t>> Generate(Decoder& model, const std::vector<std::vector<int32_t>>& prompts,
                                           const GenerateOptions& options) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < prompts.size(); ++i) {
    TORCH_CHECK_VALUE(!prompts[i].empty(), "prompt ", i, " is empty");
    const auto [least, most] = std::minmax_element(prompts[i].begin(), prompts[i].end());
    TORCH_CHECK_VALUE(*least >= 0 && *most < model.config().vocab_size, "prompt ", i, " holds the id ",
                      *least < 0 ? *least : *most, ", but the model's vocabulary has ", model.config().vocab_size,
                      " ids; is this its tokenizer?");
  }
  std::vector<std::vector<int32_t>> answers(prompts.size());
  for (std::vector<size_t>& numbers : CutIntoBatches(prompts)) {
    Batch(model, prompts, std::move(numbers), options).Run(answers);
  }
  return answers;
}

}  // namespace distill
