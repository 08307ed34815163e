#include "libdistill/nn/generate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libdistill/core/random.h"
#include "libdistill/nn/key_value_cache.h"
#include "libdistill/nn/layers.h"
#include "libdistill/nn/logits.h"
#include "libdistill/nn/packed_matrix.h"
#include "libdistill/tensor/convert.h"

namespace distill {
using torch::Tensor;

namespace {

// Of a batch; they bound the memory of the prompts' pass and of the cache.
constexpr size_t kMaxRows = 256;
constexpr size_t kMaxTokens = 16384;
// For so few tokens of an answer weights are not packed.
constexpr int64_t kFewTokens = 4;

// The model's weights, and while this is alive on CPUs copies of them that products with few rows read (PackedMatrix).
// They cost about what one pass over the weights does, and as much memory as the weights, as far as copied_bytes goes.
class Weights {
 public:
  // By another constructor first: where packing throws, the destructor takes the copies off again.
  Weights(Decoder& model, const GenerateOptions& options, size_t prompts) : Weights(model, options) {
    // One row's products take as long as reading the weights does, either way.
    if (prompts < 2 || options.max_new_tokens < kFewTokens) return;
    head_ = Pack(model.head_weight().narrow(0, 0, vocabulary_));
    if (model.weight_gate() != nullptr || model.block_source() != nullptr) return;
    for (Linear* linear : PartsOf<Linear>(model)) {
      if (linear->weight.is_same(model.head_weight())) continue;
      packed_.push_back(linear);
      linear->packed = Pack(linear->weight);
    }
  }
  ~Weights() {
    for (Linear* linear : packed_) linear->packed = nullptr;
  }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  // The head's product with states [B, H], of the first options.vocabulary ids: [B, V].
  Tensor HeadProduct(const Tensor& states) const {
    if (head_ != nullptr && states.size(0) <= PackedMatrix::kMostRows) return head_->Multiply(states);
    return at::mm(states, model_.head_weight().narrow(0, 0, vocabulary_).t());
  }

 private:
  Weights(const Decoder& model, const GenerateOptions& options)
      : model_(model),
        vocabulary_(options.vocabulary > 0 ? options.vocabulary : model.head_weight().size(0)),
        left_bytes_(options.copied_bytes) {}

  // Null, too, where there is no memory for it.
  std::shared_ptr<const PackedMatrix> Pack(const Tensor& weight) {
    const size_t bytes = weight.nbytes();
    if (bytes > left_bytes_) return nullptr;
    std::shared_ptr<const PackedMatrix> packed = PackedMatrix::Of(weight);
    if (packed != nullptr) left_bytes_ -= bytes;
    return packed;
  }

  const Decoder& model_;
  const int64_t vocabulary_;
  uint64_t left_bytes_;
  std::shared_ptr<const PackedMatrix> head_;
  std::vector<Linear*> packed_;
};

// One prompt.
struct Row {
  size_t number;                // its place among all prompts
  Random random;                // its own: what it gets does not depend on what shares its batch
  std::vector<int32_t> tokens;  // its own, and of its answer what is there already
};

// Continues rows together.
class Batch {
 public:
  Batch(Decoder& model, const Weights& weights, std::vector<Row> rows, const GenerateOptions& options)
      : model_(model),
        weights_(weights),
        options_(options),
        penalises_(options.sampling.repetition_penalty != 1),
        border_(BorderOf(model.config())),
        keeps_seen_(penalises_ || border_ > 0),
        cache_(model.config()) {
    for (Row& row : rows) {
      active_.push_back(row.number);
      randoms_.push_back(row.random);
      next_.push_back(std::move(row.tokens));
    }
    if (keeps_seen_) seen_ = next_;
  }

  // Until every answer has ended, but for rows that have come one token beyond the border, which are returned: keys
  // that were rotated at the old speeds fit no query any more, so that they begin anew with all of their tokens.
  std::vector<Row> Run(std::vector<std::vector<int32_t>>& answers, const OnTokens& on_tokens) {
    std::vector<Row> crossed;
    while (!active_.empty()) {
      Tensor logits = Logits();
      if (penalises_) PenaliseRepetition(seen_, options_.sampling.repetition_penalty, logits);
      std::vector<NewToken> chosen = Choose(logits);
      for (NewToken& token : chosen) {
        std::vector<int32_t>& answer = answers[token.prompt];
        answer.push_back(token.id);
        token.is_last = static_cast<int64_t>(answer.size()) >= options_.max_new_tokens || IsStop(token.id);
      }
      if (on_tokens != nullptr) on_tokens(absl::MakeSpan(chosen));
      // From the last row on, since it is the last one that takes the place of a row that ends.
      for (size_t row = chosen.size(); row-- > 0;) {
        next_[row] = {chosen[row].id};
        if (keeps_seen_) seen_[row].push_back(chosen[row].id);
        const bool crosses = border_ > 0 && static_cast<int64_t>(seen_[row].size()) == border_ + 1;
        if (crosses && !chosen[row].is_last) crossed.push_back({active_[row], randoms_[row], seen_[row]});
        if (crosses || chosen[row].is_last) Drop(row);
      }
    }
    return crossed;
  }

 private:
  // [B, V] for the token after the last, scaled and capped as the model has it.
  Tensor Logits() { return LogitsOfProduct(model_, weights_.HeadProduct(model_.LastHidden(next_, cache_))); }

  // The length beyond which all of a row's positions rotate at other speeds (LongRoPE); 0: there is none.
  static int64_t BorderOf(const DecoderConfig& config) {
    int64_t border = 0;
    for (const RopeConfig& rope : config.ropes) {
      if (rope.type == RopeType::kLongRope) border = static_cast<int64_t>(rope.original_length);
    }
    return border;
  }

  bool IsStop(int32_t id) const {
    return std::find(options_.stop_ids.begin(), options_.stop_ids.end(), id) != options_.stop_ids.end();
  }

  // A token for each row, in the rows' order.
  std::vector<NewToken> Choose(const Tensor& logits) {
    std::vector<NewToken> chosen;
    for (const size_t number : active_) chosen.push_back({number, 0, false});
    if (options_.sampling.temperature <= 0) {
      const Tensor best = logits.argmax(1).to(torch::kCPU);
      const int64_t* ids = best.const_data_ptr<int64_t>();
      for (size_t row = 0; row < chosen.size(); ++row) chosen[row].id = static_cast<int32_t>(ids[row]);
      return chosen;
    }
    const Tensor host = logits.to(torch::kCPU).contiguous();
    const auto vocabulary = static_cast<size_t>(host.size(1));
    for (size_t row = 0; row < chosen.size(); ++row) {
      const absl::Span<const float> one(host.const_data_ptr<float>() + row * vocabulary, vocabulary);
      const std::vector<TokenProbability> tokens = SamplingDistribution(one, options_.sampling);
      TORCH_CHECK(!tokens.empty(), "prompt ", chosen[row].prompt, ": no token can be drawn, since the model's logits ",
                  "are no numbers");
      chosen[row].id = Draw(tokens, randoms_[row]);
    }
    return chosen;
  }

  void Drop(size_t row) {
    active_[row] = active_.back(), active_.pop_back();
    randoms_[row] = randoms_.back(), randoms_.pop_back();
    std::swap(next_[row], next_.back()), next_.pop_back();
    if (keeps_seen_) std::swap(seen_[row], seen_.back()), seen_.pop_back();
    cache_.DropRow(static_cast<int64_t>(row));
  }

  Decoder& model_;
  const Weights& weights_;
  const GenerateOptions& options_;
  const bool penalises_;
  const int64_t border_;
  const bool keeps_seen_;
  KeyValueCache cache_;
  std::vector<size_t> active_;  // the prompt of each row that has not ended
  std::vector<Random> randoms_;
  std::vector<std::vector<int32_t>> next_;  // the tokens of each row that the model has not seen yet
  std::vector<std::vector<int32_t>> seen_;  // prompt and answer of each row, where somebody asks for them
};

// Rows of about the same length together, the short ones first.
std::vector<std::vector<Row>> CutIntoBatches(std::vector<Row> rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(a.tokens.size(), a.number) < std::pair(b.tokens.size(), b.number);
  });
  std::vector<std::vector<Row>> batches;
  for (Row& row : rows) {
    const bool has_room = !batches.empty() && batches.back().size() < kMaxRows &&
                          (batches.back().size() + 1) * row.tokens.size() <= kMaxTokens;
    if (!has_room) batches.emplace_back();
    batches.back().push_back(std::move(row));
  }
  return batches;
}

}  // namespace

std::vector<std::vector<int32_t>> Generate(Decoder& model, const std::vector<std::vector<int32_t>>& prompts,
                                           const GenerateOptions& options, const OnTokens& on_tokens) {
  const torch::NoGradGuard no_grad;
  const absl::Status sampling = CheckSampling(options.sampling);
  TORCH_CHECK_VALUE(sampling.ok(), std::string(sampling.message()));
  for (size_t i = 0; i < prompts.size(); ++i) {
    TORCH_CHECK_VALUE(!prompts[i].empty(), "prompt ", i, " is empty");
    const auto [least, most] = std::minmax_element(prompts[i].begin(), prompts[i].end());
    TORCH_CHECK_VALUE(*least >= 0 && *most < model.config().vocab_size, "prompt ", i, " holds the id ",
                      *least < 0 ? *least : *most, ", but the model's vocabulary has ", model.config().vocab_size,
                      " ids; is this its tokenizer?");
  }
  std::vector<std::vector<int32_t>> answers(prompts.size());
  if (options.max_new_tokens <= 0) return answers;
  const Weights weights(model, options, prompts.size());
  const auto run = [&](std::vector<Row> rows) {
    return Batch(model, weights, std::move(rows), options).Run(answers, on_tokens);
  };
  std::vector<Row> rows;
  for (size_t i = 0; i < prompts.size(); ++i) rows.push_back({i, {options.seed, options.first_prompt + i}, prompts[i]});
  for (std::vector<Row>& batch : CutIntoBatches(std::move(rows))) {
    // None of these crosses the border again.
    for (std::vector<Row>& again : CutIntoBatches(run(std::move(batch)))) run(std::move(again));
  }
  return answers;
}

void PenaliseRepetition(const std::vector<std::vector<int32_t>>& seen, double penalty, Tensor& logits) {
  const int64_t vocabulary = logits.size(1);
  std::vector<int64_t> places;
  for (size_t row = 0; row < seen.size(); ++row) {
    for (const int32_t id : seen[row]) {
      if (id < vocabulary) places.push_back(static_cast<int64_t>(row) * vocabulary + id);
    }
  }
  const Tensor flat = logits.view(-1), at = ToDevice(places, logits.device());
  const Tensor values = flat.index_select(0, at);
  // An id that is there twice is written twice, with the same value.
  flat.index_copy_(0, at, torch::where(values < 0, values * penalty, values / penalty));
}

}  // namespace distill
