#include "libdistill/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "libdistill/core/random.h"
#include "libdistill/nn/key_value_cache.h"

namespace distill {
namespace {

using torch::Tensor;

constexpr size_t kMaxBatch = 256;  // bounds the cache's memory

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

// Continues prompts of one length, in one batch; `numbers` are their places among all prompts.
class Batch {
 public:
  Batch(Decoder& model, const std::vector<std::vector<int32_t>>& prompts, std::vector<size_t> numbers,
        const GenerateOptions& options)
      : model_(model),
        options_(options),
        cache_(model.config().num_hidden_layers),
        device_(model.head_weight().device()),
        active_(std::move(numbers)) {
    std::vector<int64_t> ids;
    for (const size_t number : active_) ids.insert(ids.end(), prompts[number].begin(), prompts[number].end());
    const auto rows = static_cast<int64_t>(active_.size());
    next_ = torch::tensor(ids, torch::kInt64).view({rows, -1}).to(device_);
    // A generator for each prompt: what it gets does not depend on what shares its batch.
    for (const size_t number : active_) randoms_.emplace_back(options.seed, number);
  }

  void Run(std::vector<std::vector<int32_t>>& answers) {
    for (int64_t step = 0; step < options_.max_new_tokens && !active_.empty(); ++step) {
      const std::vector<int32_t> chosen = Choose(Logits());
      std::vector<int64_t> left;
      for (size_t row = 0; row < chosen.size(); ++row) {
        answers[active_[row]].push_back(chosen[row]);
        const auto& stops = options_.stop_ids;
        if (std::find(stops.begin(), stops.end(), chosen[row]) == stops.end()) left.push_back(row);
      }
      next_ =
          torch::tensor(std::vector<int64_t>(chosen.begin(), chosen.end()), torch::kInt64).unsqueeze_(1).to(device_);
      if (left.size() < chosen.size()) KeepRows(left);
    }
  }

 private:
  // [B, V] for the token after the last.
  Tensor Logits() {
    const Tensor last = model_.HiddenWithCache(next_, cache_).select(1, -1);
    const Tensor weight = model_.head_weight();
    const int64_t vocabulary = options_.vocabulary > 0 ? options_.vocabulary : weight.size(0);
    Tensor logits = at::mm(last, weight.narrow(0, 0, vocabulary).t());
    if (model_.head_bias().defined()) logits.add_(model_.head_bias().narrow(0, 0, vocabulary));
    return logits.to(torch::kFloat32);
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

  void KeepRows(const std::vector<int64_t>& rows) {
    std::vector<size_t> active;
    std::vector<Random> randoms;
    for (const int64_t row : rows) {
      active.push_back(active_[row]);
      randoms.push_back(randoms_[row]);
    }
    active_ = std::move(active);
    randoms_ = std::move(randoms);
    const Tensor kept = torch::tensor(rows, torch::kInt64).to(device_);
    next_ = next_.index_select(0, kept);
    cache_.KeepRows(kept);
  }

  Decoder& model_;
  const GenerateOptions& options_;
  KeyValueCache cache_;
  const torch::Device device_;
  std::vector<size_t> active_;  // the prompt of each row that goes on
  std::vector<Random> randoms_;
  Tensor next_;  // int64 [B, T]: what the model has not seen yet
};

}  // namespace

std::vector<std::vector<int32_t>> Generate(Decoder& model, const std::vector<std::vector<int32_t>>& prompts,
                                           const GenerateOptions& options) {
  const torch::NoGradGuard no_grad;
  std::map<size_t, std::vector<size_t>> by_length;
  for (size_t i = 0; i < prompts.size(); ++i) {
    TORCH_CHECK_VALUE(!prompts[i].empty(), "prompt ", i, " is empty");
    const auto [least, most] = std::minmax_element(prompts[i].begin(), prompts[i].end());
    TORCH_CHECK_VALUE(*least >= 0 && *most < model.config().vocab_size, "prompt ", i, " holds the id ",
                      *least < 0 ? *least : *most, ", but the model's vocabulary has ", model.config().vocab_size,
                      " ids; is this its tokenizer?");
    by_length[prompts[i].size()].push_back(i);
  }
  std::vector<std::vector<int32_t>> answers(prompts.size());
  for (const auto& [length, numbers] : by_length) {
    for (size_t first = 0; first < numbers.size(); first += kMaxBatch) {
      const size_t end = std::min(numbers.size(), first + kMaxBatch);
      Batch(model, prompts, {numbers.begin() + first, numbers.begin() + end}, options).Run(answers);
    }
  }
  return answers;
}

}  // namespace distill
