#include "examples/squad/answer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <torch/utils.h>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/nn/encoder_heads.h"
#include "libdistill/tensor/catch_torch.h"

// Shapes: B windows, T tokens.
namespace distill {
namespace {

constexpr int64_t kWindowsAtOnce = 8;
constexpr int32_t kContext = 1;  // the second text

struct BestSpan {
  float score = 0;
  int64_t first = 0, last = 0;  // tokens
  const Encoding* window = nullptr;
};

TokenInput InputOf(absl::Span<const Encoding> windows, bool has_token_types, c10::Device device) {
  int64_t longest = 0;
  for (const Encoding& window : windows) longest = std::max(longest, window.size());
  const auto rows = static_cast<int64_t>(windows.size());
  const torch::Tensor ids = torch::zeros({rows, longest}, torch::kInt64), types = torch::zeros_like(ids);
  TokenInput input;
  for (int64_t row = 0; row < rows; ++row) {
    const Encoding& window = windows[row];
    for (int64_t i = 0; i < window.size(); ++i) {
      ids.data_ptr<int64_t>()[row * longest + i] = window.ids[i];
      types.data_ptr<int64_t>()[row * longest + i] = window.type_ids[i];
    }
    input.document_starts.push_back({0, window.size()});
  }
  input.input_ids = ids.to(device);
  if (has_token_types) input.token_types = types.to(device);
  return input;
}

// Softmax over the tokens that may be answers and [CLS], whose own probability counts no more then.
std::vector<float> Probabilities(const float* logits, const Encoding& window, int64_t no_answer) {
  std::vector<float> values;  // those of the others are exactly 0
  for (int64_t i = 0; i < window.size(); ++i) {
    values.push_back(window.texts[i] == kContext || i == no_answer ? logits[2 * i] : -10000.0f);
  }
  const float highest = *std::max_element(values.begin(), values.end());
  float sum = 0;
  for (float& value : values) sum += value = std::exp(value - highest);
  for (float& value : values) value /= sum;
  values[0] = 0;
  return values;
}

// `logits`: [T, 2].
BestSpan BestIn(const Encoding& window, const float* logits, int64_t no_answer, int64_t max_answer_length) {
  const std::vector<float> starts = Probabilities(logits, window, no_answer);
  const std::vector<float> ends = Probabilities(logits + 1, window, no_answer);
  BestSpan best;
  for (int64_t first = 0; first < window.size(); ++first) {
    if (window.texts[first] != kContext) continue;
    for (int64_t last = first; last < std::min(first + max_answer_length, window.size()); ++last) {
      const float score = starts[first] * ends[last];
      if (window.texts[last] != kContext || (best.window != nullptr && score <= best.score)) continue;
      best = {score, first, last, &window};
    }
  }
  return best;
}

// Bytes of the context: those of the words that the first and last token are of, as far as this window has them.
std::pair<int64_t, int64_t> BytesOf(const BestSpan& span) {
  const Encoding& window = *span.window;
  int64_t first = span.first, last = span.last;
  const auto is_same_word = [&](int64_t a, int64_t b) {
    return window.texts[b] == kContext && window.words[a] >= 0 && window.words[a] == window.words[b];
  };
  while (first > 0 && is_same_word(first, first - 1)) --first;
  while (last + 1 < window.size() && is_same_word(last, last + 1)) ++last;
  return {window.offsets[first].first, window.offsets[last].second};
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpanAnswerer>> SpanAnswerer::Load(const std::string& folder,
                                                                 const AnswerOptions& options, c10::Device device) {
  DISTILL_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(folder));
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<SpanModel> model, LoadSpanModel(folder, {.device = device}));
  model->eval();
  AnswerOptions fitting = options;
  fitting.windows.max_length = std::min(options.windows.max_length, model->config().max_position_embeddings);
  fitting.windows.stride = std::min(options.windows.stride, fitting.windows.max_length / 2);
  return std::unique_ptr<SpanAnswerer>(new SpanAnswerer(std::move(model), std::move(tokenizer), fitting, device));
}

absl::StatusOr<SpanAnswer> SpanAnswerer::Answer(const std::string& question, const std::string& context,
                                                absl::Time deadline) const {
  if (LeadingSpace(question) == question.size()) return absl::InvalidArgumentError("the question is empty");
  if (LeadingSpace(context) == context.size()) return absl::InvalidArgumentError("the context is empty");
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Encoding> windows,
                           WindowsOf(tokenizer_, question, context, options_.windows));
  BestSpan best;
  const bool has_token_types = model_->config().type_vocab_size > 0;
  const absl::Span<const Encoding> all = windows;
  for (size_t begin = 0; begin < all.size(); begin += kWindowsAtOnce) {
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("the context has ", all.size(), " windows, of which ", begin,
                                                      " were read in time: send a shorter one"));
    }
    const absl::Span<const Encoding> some = all.subspan(begin, kWindowsAtOnce);
    const absl::Status read = CatchTorch([&] {
      const torch::NoGradGuard no_grad;
      const torch::Tensor logits =
          model_->forward(InputOf(some, has_token_types, device_)).to(torch::kFloat32).cpu().contiguous();
      for (size_t i = 0; i < some.size(); ++i) {
        const BestSpan here = BestIn(some[i], logits.data_ptr<float>() + static_cast<int64_t>(i) * logits.stride(0),
                                     PlaceOfNoAnswer(tokenizer_, some[i]), options_.max_answer_length);
        if (here.window != nullptr && (best.window == nullptr || here.score > best.score)) best = here;
      }
      return absl::OkStatus();
    });
    DISTILL_RETURN_IF_ERROR(read);
  }
  if (best.window == nullptr) return absl::InternalError("no window holds a token of the context");
  const auto [begin, end] = BytesOf(best);
  const auto characters_before = [&](int64_t byte) {
    return static_cast<int64_t>(CountCodePoints(absl::string_view(context).substr(0, static_cast<size_t>(byte))));
  };
  return SpanAnswer{best.score, characters_before(begin), characters_before(end),
                    context.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin))};
}

}  // namespace distill
