// Greedy answers of a random model, on one core: tokens/s beside what the matrix products alone allow.
// bench/peers/generate.py answers the same prompts with transformers.
//
//   build/bin/bench_generate --folder DIR --make                 writes DIR/model and DIR/prompts.json
//   build/bin/bench_generate --folder DIR --rows 16 --bf16       also writes DIR/bf16-16.json, the answers
//
// The model has the widths of Qwen2.5-0.5B, and a third of its layers and of its vocabulary. Verifies the answers
// against the model without a cache before anything is timed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/arguments.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/generate.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/large_pages.h"
#include "libdistill/world/process.h"

namespace distill {
namespace {

using torch::Tensor;
using Ids = std::vector<std::vector<int32_t>>;
using Clock = std::chrono::steady_clock;

constexpr char kModel[] = R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 50648,
  "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 8, "num_attention_heads": 14,
  "num_key_value_heads": 2, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
  "tie_word_embeddings": true, "hidden_act": "silu", "initializer_range": 0.05, "torch_dtype": "bfloat16"})";
constexpr int64_t kVocabulary = 50648;
constexpr size_t kPrompts = 16, kShortest = 16, kLongest = 256;

struct Case {
  std::string folder;
  bool make = false, bf16 = false;
  int64_t rows = 1, new_tokens = 64, repetitions = 1;
  torch::Dtype dtype() const { return bf16 ? torch::kBFloat16 : torch::kFloat32; }
  std::string name() const { return absl::StrCat(bf16 ? "bf16" : "fp32", "-", rows); }
};

// The first one of 128 tokens; the others of drawn lengths.
Ids DrawPrompts() {
  Random random(7, 0);
  Ids prompts(kPrompts);
  for (Ids::value_type& prompt : prompts) {
    prompt.resize(&prompt == &prompts[0] ? 128 : kShortest + random.Below(kLongest - kShortest + 1));
    for (int32_t& id : prompt) id = static_cast<int32_t>(random.Below(kVocabulary));
  }
  return prompts;
}

absl::Status Make(const Case& c) {
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ParseDecoderConfig(kModel, "config.json"));
  const Decoder model(config, /*seed=*/5);
  DISTILL_RETURN_IF_ERROR(MakeFolder(c.folder));
  DISTILL_RETURN_IF_ERROR(model.Save(JoinPath(c.folder, "model"), "", torch::kBFloat16));
  return WriteWholeFile(JoinPath(c.folder, "prompts.json"), nlohmann::json(DrawPrompts()).dump());
}

// Each token must be the likeliest after those before it, but for rounding: where the cache's sums are rounded
// otherwise, two logits that are nearly equal may change places.
absl::Status Verify(Decoder& model, const Case& c, const Ids& prompts, const Ids& answers) {
  const double tolerance = c.bf16 ? 5e-2 : 1e-4;
  for (size_t i = 0; i < prompts.size(); ++i) {
    std::vector<int64_t> ids(prompts[i].begin(), prompts[i].end());
    ids.insert(ids.end(), answers[i].begin(), answers[i].end());
    const auto count = static_cast<int64_t>(answers[i].size());
    const Tensor hidden = model.Hidden({torch::tensor(ids, torch::kInt64).unsqueeze(0), {}})[0];
    const Tensor logits = hidden.slice(0, -count - 1, -1).matmul(model.head_weight().t()).to(torch::kFloat32);
    const Tensor chosen = logits.gather(1, torch::tensor(ids, torch::kInt64).slice(0, -count).unsqueeze(1));
    const double behind = (logits.amax(1, true) - chosen).max().item<double>();
    if (count == c.new_tokens && behind <= tolerance * logits.abs().max().item<double>()) continue;
    return absl::InternalError(
        absl::StrCat("prompt ", i, ": a token of the answer's ", count, " is ", behind, " behind the likeliest one"));
  }
  return absl::OkStatus();
}

// Seconds that the answers' matrix products take: those of all prompts' tokens, and of a step as often as there are
// steps; the head's for last tokens alone.
double ProductSeconds(Decoder& model, const Case& c, const Ids& prompts) {
  int64_t prompt_tokens = 0;
  for (const auto& prompt : prompts) prompt_tokens += static_cast<int64_t>(prompt.size());
  const auto pass = [&](int64_t tokens) {
    const auto start = Clock::now();
    for (const Tensor& weight : model.parameters()) {
      if (weight.dim() != 2) continue;
      const bool is_head = weight.is_same(model.head_weight());
      at::linear(torch::ones({is_head ? c.rows : tokens, weight.size(1)}, weight.options()), weight);
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  pass(prompt_tokens);
  const double first = pass(prompt_tokens);
  std::vector<double> steps;
  for (int i = 0; i < 9; ++i) steps.push_back(pass(c.rows));
  std::sort(steps.begin(), steps.end());
  return first + steps[4] * static_cast<double>(c.new_tokens - 1);
}

absl::Status Bench(const Case& c) {
  if (c.make) return Make(c);
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(JoinPath(c.folder, "prompts.json")));
  Ids prompts = nlohmann::json::parse(text).get<Ids>();
  prompts.resize(std::min<size_t>(prompts.size(), static_cast<size_t>(c.rows)));
  DISTILL_ASSIGN_OR_RETURN(const auto model, LoadDecoder(JoinPath(c.folder, "model"), {.dtype = c.dtype()}));
  const torch::NoGradGuard no_grad;
  const GenerateOptions options{.max_new_tokens = c.new_tokens};
  const Ids answers = Generate(*model, prompts, options);
  DISTILL_RETURN_IF_ERROR(Verify(*model, c, prompts, answers));
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(c.folder, c.name() + ".json"), nlohmann::json(answers).dump()));
  double best = 0;
  const auto tokens = static_cast<double>(c.rows * c.new_tokens);
  for (int64_t i = 0; i < c.repetitions; ++i) {
    const auto start = Clock::now();
    Generate(*model, prompts, options);
    best = std::max(best, tokens / std::chrono::duration<double>(Clock::now() - start).count());
  }
  const double limit = tokens / ProductSeconds(*model, c, prompts);
  std::printf("%s: %.1f tokens/s; the matrix products alone %.1f\n", c.name().c_str(), best, limit);
  std::printf("JSON {\"case\": \"%s\", \"tokens\": %.2f, \"limit\": %.2f}\n", c.name().c_str(), best, limit);
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::PrepareProcess();
  distill::UseLargePages();  // as distill_llm --generate has it
  distill::Arguments arguments("Greedy answers: tokens/s");
  distill::Case c;
  arguments.Add("--folder", c.folder).Required();
  arguments.AddFlag("--make", c.make, "the model and the prompts");
  arguments.AddFlag("--bf16", c.bf16);
  arguments.Add("--rows", c.rows).Between(1, 16);
  arguments.Add("--new_tokens", c.new_tokens).Between(2, 4096);
  arguments.Add("--repetitions", c.repetitions, "of which the best counts").Positive();
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  const absl::Status status = distill::CatchTorch([&] { return distill::Bench(c); });
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
