#include "libdistill/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "libdistill/core/random.h"
#include "libdistill/nn/generation_config.h"
#include "libdistill/nn/layers.h"
#include "libdistill/nn/packed_matrix.h"
#include "libdistill/nn/weight_gate.h"
#include "libdistill/tensor/catch_torch.h"
#include "tests/nn/tiny_models.h"
#include "tests/support/temp_folder.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using Ids = std::vector<std::vector<int32_t>>;

const Ids kPrompts = {{1, 2, 3}, {4, 5}, {6, 7, 8}, {9}, {10, 11, 12}};

// One token at a time with everything computed anew.
std::vector<int32_t> GenerateSlowly(Decoder& model, const std::vector<int32_t>& prompt, int64_t count,
                                    int64_t vocabulary) {
  const torch::NoGradGuard no_grad;
  const torch::Device device = model.head_weight().device();
  std::vector<int64_t> ids(prompt.begin(), prompt.end());
  std::vector<int32_t> answer;
  for (int64_t i = 0; i < count; ++i) {
    const torch::Tensor hidden = model.Hidden({torch::tensor(ids, torch::kInt64).unsqueeze(0).to(device), {}});
    const torch::Tensor logits = hidden[0][-1].matmul(model.head_weight().t()).narrow(0, 0, vocabulary);
    answer.push_back(static_cast<int32_t>(logits.argmax().item<int64_t>()));
    ids.push_back(answer.back());
  }
  return answer;
}

TEST_CASE("greedy answers are those of the model without a cache, whatever shares the batch") {
  for (const torch::Device& device : TestDevices()) {
    Decoder model(TinyConfig());
    model.to(device);
    for (const int64_t vocabulary : {0, 40}) {
      const Ids answers = Generate(model, kPrompts, {.max_new_tokens = 9, .stop_ids = {}, .vocabulary = vocabulary});
      REQUIRE(answers.size() == kPrompts.size());
      for (size_t i = 0; i < kPrompts.size(); ++i) {
        CHECK(answers[i] == GenerateSlowly(model, kPrompts[i], 9, vocabulary > 0 ? vocabulary : 61));
      }
    }
  }
}

// A family that scales and caps its logits.
struct CappedDecoder : Decoder {
  using Decoder::Decoder;
  double logit_scale() const override { return scale; }
  double logit_softcap() const override { return softcap; }
  double scale = 1, softcap = 0;
};

TEST_CASE("tokens are drawn from logits as the model scales and caps them") {
  CappedDecoder model(TinyConfig());
  const GenerateOptions warm{.max_new_tokens = 20, .sampling = {.temperature = 2.0}};
  GenerateOptions warmer = warm;
  warmer.sampling.temperature = 4 * warm.sampling.temperature;
  const Ids plain = Generate(model, kPrompts, warm);
  model.scale = 4;
  CHECK(Generate(model, kPrompts, warmer) == plain);
  CHECK(Generate(model, kPrompts, warm) != plain);
  // So large a scale leaves the likeliest alone, unless a cap brings all together again.
  model.scale = 1e6;
  const Ids likeliest = Generate(model, kPrompts, {.max_new_tokens = 20});
  CHECK(Generate(model, kPrompts, {.max_new_tokens = 20, .sampling = {.temperature = 1.0}}) == likeliest);
  model.softcap = 1e-3;
  std::set<int32_t> drawn;
  for (const auto& answer : Generate(model, kPrompts, {.max_new_tokens = 20, .sampling = {.temperature = 1.0}})) {
    drawn.insert(answer.begin(), answer.end());
  }
  CHECK(drawn.size() > 30);  // of 61 in 100 draws
}

TEST_CASE("a stop id ends its answer and no other") {
  Decoder model(TinyConfig());
  const GenerateOptions whole{.max_new_tokens = 12, .stop_ids = {}};
  const Ids answers = Generate(model, kPrompts, whole);
  GenerateOptions options = whole;
  options.stop_ids = {answers[0][3], answers[2][6]};
  const Ids stopped = Generate(model, kPrompts, options);
  for (size_t i = 0; i < answers.size(); ++i) {
    std::vector<int32_t> expected;
    for (const int32_t id : answers[i]) {
      expected.push_back(id);
      if (id == options.stop_ids[0] || id == options.stop_ids[1]) break;
    }
    CHECK(stopped[i] == expected);
  }
  CHECK(stopped[0].size() <= 4);
}

// Lengths from 1 to 40, in no order.
Ids MixedPrompts(size_t count) {
  Ids prompts;
  Random random(7, 0);
  for (size_t i = 0; i < count; ++i) {
    prompts.emplace_back(1 + random.Below(40));
    for (int32_t& id : prompts.back()) id = static_cast<int32_t>(random.Below(61));
  }
  return prompts;
}

TEST_CASE("prompts of different lengths, whose answers end at different times, get what each gets alone") {
  for (const torch::Device& device : TestDevices()) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
      for (const std::string family : {"qwen2", "llama"}) {
        INFO(family << " in " << dtype << " on " << device);
        Decoder model(TinyConfig(family));
        model.to(device, dtype);
        const Ids prompts = MixedPrompts(30);
        const Ids whole = Generate(model, prompts, {.max_new_tokens = 30, .stop_ids = {}});
        const GenerateOptions options{.max_new_tokens = 30, .stop_ids = {whole[0][2], whole[7][11], whole[20][25]}};
        const Ids together = Generate(model, prompts, options);
        std::set<size_t> lengths;
        for (size_t i = 0; i < prompts.size(); ++i) {
          INFO("prompt " << i << " of " << prompts[i].size() << " tokens");
          CHECK(together[i] == Generate(model, {prompts[i]}, options)[0]);
          lengths.insert(together[i].size());
        }
        CHECK(lengths.size() > 3);
      }
    }
  }
}

// In a narrow type two logits are often equal but for the rounding of sums, whose order depends on the batch's shape.
TEST_CASE("in narrow types, too, each token of a mixed batch is the likeliest one but for rounding") {
  for (const torch::Dtype dtype : {torch::kBFloat16, torch::kFloat16}) {
    Decoder model(TinyConfig());
    model.to(dtype);
    const Ids prompts = MixedPrompts(20);
    const Ids answers = Generate(model, prompts, {.max_new_tokens = 10, .stop_ids = {}});
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < prompts.size(); ++i) {
      std::vector<int64_t> ids(prompts[i].begin(), prompts[i].end());
      ids.insert(ids.end(), answers[i].begin(), answers[i].end());
      const torch::Tensor hidden = model.Hidden({torch::tensor(ids, torch::kInt64).unsqueeze(0), {}})[0];
      const torch::Tensor logits = hidden.matmul(model.head_weight().t()).to(torch::kFloat32);
      for (size_t t = 0; t < answers[i].size(); ++t) {
        const torch::Tensor row = logits[static_cast<int64_t>(prompts[i].size() + t) - 1];
        const double best = row.max().item<double>(), chosen = row[answers[i][t]].item<double>();
        CHECK(best - chosen < 0.03 * row.abs().max().item<double>());
      }
    }
  }
}

// Counts passes of the model; all weights are there.
class CountPasses : public WeightGate {
 public:
  void BeginPass(bool) override { ++passes; }
  void Acquire(size_t) override {}
  void Release(size_t) override {}
  void Fetch(size_t) override {}
  int64_t passes = 0;
};

TEST_CASE("prompts of different lengths share every pass of the model") {
  Decoder model(TinyConfig());
  const auto gate = std::make_shared<CountPasses>();
  model.SetWeightGate(gate);
  Generate(model, MixedPrompts(30), {.max_new_tokens = 12, .stop_ids = {}});
  CHECK(gate->passes == 12);
}

// Of the tiny model, whose angles change for texts of more than `border` tokens (LongRoPE).
DecoderConfig BorderConfig(int border) {
  const std::string rope = absl::StrCat(R"("rope_scaling": {"rope_type": "longrope", "factor": 8, )",
                                        R"("short_factor": [1, 1.1, 1.3, 1.5], "long_factor": [1.5, 3, 7, 11], )",
                                        R"("original_max_position_embeddings": )", border, "},");
  auto config = ParseDecoderConfig(absl::StrCat("{", rope, TinyConfigJson().substr(1)), "tiny");
  INFO(config.status());
  REQUIRE(config.ok());
  return *config;
}

TEST_CASE("prompts of different lengths before and behind LongRoPE's border get what each gets alone") {
  for (const torch::Device& device : TestDevices()) {
    Decoder model(BorderConfig(30));
    model.to(device);
    const Ids prompts = MixedPrompts(30);  // of 1 to 40 tokens
    GenerateOptions options{.max_new_tokens = 20};
    options.stop_ids = {Generate(model, prompts, options)[0][2]};
    const Ids together = Generate(model, prompts, options);
    size_t crossed = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
      INFO("prompt " << i << " of " << prompts[i].size() << " tokens");
      const std::vector<int32_t> slowly = GenerateSlowly(model, prompts[i], 20, 61);
      CHECK(std::vector<int32_t>(slowly.begin(), slowly.begin() + together[i].size()) == together[i]);
      CHECK(together[i] == Generate(model, {prompts[i]}, options)[0]);
      crossed += prompts[i].size() <= 30 && prompts[i].size() + together[i].size() > 31 ? 1 : 0;
    }
    CHECK(crossed > 3);
    options.sampling = {.temperature = 1.5, .repetition_penalty = 1.2};
    const Ids drawn = Generate(model, prompts, options);
    for (size_t i = 0; i < prompts.size(); ++i) {
      options.first_prompt = i;
      CHECK(drawn[i] == Generate(model, {prompts[i]}, options)[0]);
    }
  }
}

TEST_CASE("rows that cross LongRoPE's border begin anew in batches of at most 16,384 tokens") {
  Decoder model(BorderConfig(100));
  const auto gate = std::make_shared<CountPasses>();
  model.SetWeightGate(gate);
  const Ids answers = Generate(model, Ids(200, {5}), {.max_new_tokens = 105});
  CHECK(std::all_of(answers.begin(), answers.end(), [](const auto& answer) { return answer.size() == 105; }));
  CHECK(gate->passes == 100 + 2 * 5);  // 162 rows of 101 tokens, and the others
}

TEST_CASE("what some of many prompts get goes by their number among all") {
  Decoder model(TinyConfig());
  GenerateOptions options{.max_new_tokens = 12, .sampling = {.temperature = 2.0}};
  const std::vector<int32_t> same = {1, 2, 3};
  const Ids both = Generate(model, {same, same}, options);
  CHECK(both[0] != both[1]);
  CHECK(Generate(model, {same}, options)[0] == both[0]);
  options.first_prompt = 1;
  CHECK(Generate(model, {same}, options)[0] == both[1]);
}

size_t CountPacked(Decoder& model) {
  const std::vector<Linear*> all = PartsOf<Linear>(model);
  return std::count_if(all.begin(), all.end(), [](const Linear* linear) { return linear->packed != nullptr; });
}

TEST_CASE("weights are copied as far as memory is granted, and only while prompts are answered") {
  Decoder model(TinyConfig());
  const std::vector<Linear*> all = PartsOf<Linear>(model);
  const bool can_pack = PackedMatrix::Of(all[0]->weight) != nullptr;
  const size_t most = all.size() - std::count_if(all.begin(), all.end(), [&](const Linear* linear) {
                        return linear->weight.is_same(model.head_weight());
                      });
  GenerateOptions options{.max_new_tokens = 9};
  Ids answers;
  const auto packed_with = [&](uint64_t bytes) {
    size_t packed = 0;
    options.copied_bytes = bytes;
    const Ids now = Generate(model, kPrompts, options, [&](absl::Span<NewToken>) { packed = CountPacked(model); });
    CHECK((answers.empty() || now == answers));
    answers = now;
    CHECK(CountPacked(model) == 0);
    return packed;
  };
  const size_t head = model.head_weight().nbytes();
  CHECK(packed_with(GenerateOptions().copied_bytes) == (can_pack ? most : 0));
  CHECK(packed_with(head + all[0]->weight.nbytes()) == (can_pack ? 1 : 0));
  CHECK(packed_with(0) == 0);
}

TEST_CASE("copies of weights are taken off again where one of them cannot be made") {
  Decoder model(TinyConfig());
  const std::vector<Linear*> all = PartsOf<Linear>(model);
  if (PackedMatrix::Of(all[0]->weight) == nullptr) return;
  Linear* const broken = *std::find_if(
      all.rbegin(), all.rend(), [&](const Linear* linear) { return !linear->weight.is_same(model.head_weight()); });
  const torch::Tensor whole = broken->weight;
  broken->weight = torch::ones({24});
  CHECK_THROWS_AS(Generate(model, kPrompts, {.max_new_tokens = 9}), c10::Error);
  CHECK(CountPacked(model) == 0);
  broken->weight = whole;
  CHECK(Generate(model, kPrompts, {.max_new_tokens = 9})[0] == GenerateSlowly(model, kPrompts[0], 9, 61));
}

TEST_CASE("the ids that end an answer come from generation_config.json, else from config.json") {
  const testing::TempFolder folder;
  CHECK(ReadStopIds(folder.path()).value().empty());
  folder.Write("config.json", R"({"eos_token_id": 7})");
  CHECK(ReadStopIds(folder.path()).value() == std::vector<int32_t>{7});
  folder.Write("generation_config.json", R"({"temperature": 0.6})");
  CHECK(ReadStopIds(folder.path()).value() == std::vector<int32_t>{7});
  folder.Write("generation_config.json", R"({"eos_token_id": [9, 3], "do_sample": true})");
  CHECK(ReadStopIds(folder.path()).value() == std::vector<int32_t>{9, 3});
  folder.Write("generation_config.json", R"({"eos_token_id": ["</s>"]})");
  const absl::Status wrong = ReadStopIds(folder.path()).status();
  CHECK(wrong.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(wrong.message(), "generation_config.json: \"eos_token_id\""));
  folder.Write("generation_config.json", "{");
  CHECK(ReadStopIds(folder.path()).status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("generation_config.json says how tokens are chosen, as transformers reads it") {
  const testing::TempFolder folder;
  const auto read = [&](const std::string& text) {
    folder.Write("generation_config.json", text);
    return ReadGenerationConfig(folder.path());
  };
  CHECK_FALSE(ReadGenerationConfig(folder.path())->does_sample);
  CHECK_FALSE(read(R"({"temperature": 0})")->does_sample);
  // What stands there counts where somebody asks for draws.
  CHECK_FALSE(read(R"({"temperature": 0.6, "top_p": 0.9})")->does_sample);
  CHECK(read(R"({"temperature": 0.6, "top_p": 0.9})")->sampling.temperature == 0.6);
  CHECK(read(R"({"temperature": 0.6, "top_p": 0.9})")->sampling.top_k == 50);
  CHECK(read(R"({"do_sample": true})")->does_sample);
  SamplingOptions options = read(R"({"do_sample": true})")->sampling;
  CHECK((options.temperature == 1 && options.top_k == 50 && options.top_p == 1 && options.repetition_penalty == 1));
  options = read(R"({"do_sample": true, "temperature": 0.7, "top_k": 0, "top_p": 0.8, "min_p": 0.1,
                     "repetition_penalty": 1.05, "eos_token_id": [3]})")
                ->sampling;
  CHECK((options.temperature == 0.7 && options.top_k == 0 && options.top_p == 0.8 && options.min_p == 0.1));
  CHECK(options.repetition_penalty == 1.05);
  CHECK(read(R"({"repetition_penalty": 1.1, "do_sample": null})")->sampling.repetition_penalty == 1.1);
  const auto error = [&](const char* text) { return std::string(read(text).status().message()); };
  CHECK(absl::StrContains(error(R"({"do_sample": true, "top_k": 2.5})"), "generation_config.json: \"top_k\""));
  CHECK(absl::StrContains(error(R"({"do_sample": true, "top_p": 1.5})"), "\"top_p\" must be a number within 0 and 1"));
  CHECK(absl::StrContains(error(R"({"repetition_penalty": -1})"), "\"repetition_penalty\" must be a positive number"));
  CHECK(read("{").status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("a prompt with an id that the model does not know is refused by its number") {
  Decoder model(TinyConfig());
  const auto generate = [&model](const Ids& prompts) {
    return CatchTorch([&] {
      Generate(model, prompts, {});
      return absl::OkStatus();
    });
  };
  CHECK(generate({{1}, {2, 61}}).code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(generate({{1}, {2, 61}}).message(), "prompt 1 holds the id 61"));
  CHECK(absl::StrContains(generate({{-1}}).message(), "prompt 0 holds the id -1"));
}

TEST_CASE("more prompts than a batch holds are all answered") {
  Decoder model(TinyConfig());
  Ids prompts;
  for (int32_t i = 0; i < 600; ++i) prompts.push_back({i % 61, (i / 61) % 61});
  const GenerateOptions options{.max_new_tokens = 2, .stop_ids = {}};
  const Ids answers = Generate(model, prompts, options);
  for (const size_t i : {0u, 255u, 256u, 599u}) CHECK(answers[i] == Generate(model, {prompts[i]}, options)[0]);
  CHECK(Generate(model, {}, options).empty());
  CHECK_THROWS_AS(Generate(model, {{}}, options), c10::Error);
}

TEST_CASE("samples repeat with their seed and follow the model's probabilities") {
  Decoder model(TinyConfig());
  const GenerateOptions options{.max_new_tokens = 8, .sampling = {.temperature = 1.0}, .seed = 1, .stop_ids = {}};
  const Ids once = Generate(model, kPrompts, options);
  CHECK(once == Generate(model, kPrompts, options));
  GenerateOptions other = options;
  other.seed = 2;
  CHECK(once != Generate(model, kPrompts, other));

  const Ids prompts(4000, std::vector<int32_t>{1, 2});
  GenerateOptions single = options;
  single.max_new_tokens = 1;
  std::vector<double> counts(61);
  for (const auto& answer : Generate(model, prompts, single)) counts[answer[0]] += 1.0 / prompts.size();
  const torch::NoGradGuard no_grad;
  const torch::Tensor hidden = model.Hidden({torch::tensor({{1, 2}}, torch::kInt64), {}})[0][1];
  const torch::Tensor expected = torch::softmax(hidden.matmul(model.head_weight().t()), 0);
  for (int64_t id = 0; id < 61; ++id) {
    const double p = expected[id].item<double>();
    CHECK(std::abs(counts[id] - p) < 5 * std::sqrt(p / prompts.size()) + 1e-3);
  }
}

TEST_CASE("top-k and top-p leave only the likeliest tokens") {
  Decoder model(TinyConfig());
  const Ids prompts(500, std::vector<int32_t>{3, 4, 5});
  const auto seen = [&](const GenerateOptions& options) {
    std::set<int32_t> ids;
    for (const auto& answer : Generate(model, prompts, options)) ids.insert(answer[0]);
    return ids;
  };
  const auto base = GenerateOptions{.max_new_tokens = 1, .sampling = {.temperature = 2.0}, .stop_ids = {}};
  const torch::NoGradGuard no_grad;
  const torch::Tensor hidden = model.Hidden({torch::tensor({{3, 4, 5}}, torch::kInt64), {}})[0][2];
  const torch::Tensor logits = hidden.matmul(model.head_weight().t());
  const torch::Tensor order = logits.argsort(/*dim=*/0, /*descending=*/true);
  GenerateOptions options = base;
  options.sampling.top_k = 3;
  CHECK(seen(options) ==
        std::set<int32_t>{order[0].item<int32_t>(), order[1].item<int32_t>(), order[2].item<int32_t>()});
  options = base;
  options.sampling.top_p = 0.5;
  const torch::Tensor covered = torch::softmax(logits / 2.0, 0).index_select(0, order).cumsum(0);
  const auto needed = static_cast<size_t>((covered < 0.5).sum().item<int64_t>() + 1);
  CHECK(seen(options).size() <= needed);
  CHECK(seen(base).size() > needed);
  options.sampling.top_p = 1e-9;
  CHECK(seen(options) == std::set<int32_t>{order[0].item<int32_t>()});
}

TEST_CASE("tokens that prompt or answer hold already become less likely, in greedy answers of mixed batches, too") {
  for (const torch::Device& device : TestDevices()) {
    Decoder model(TinyConfig());
    model.to(device);
    const Ids prompts = MixedPrompts(12);
    GenerateOptions options{.max_new_tokens = 25, .sampling = {.repetition_penalty = 1.4}, .vocabulary = 50};
    options.stop_ids = {Generate(model, {prompts[0]}, options)[0][3]};
    const Ids answers = Generate(model, prompts, options);
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < prompts.size(); ++i) {
      std::vector<int64_t> ids(prompts[i].begin(), prompts[i].end());
      for (const int32_t chosen : answers[i]) {
        const torch::Tensor hidden = model.Hidden({torch::tensor(ids, torch::kInt64).unsqueeze(0).to(device), {}});
        torch::Tensor logits = hidden[0][-1].matmul(model.head_weight().t()).narrow(0, 0, 50).to(torch::kCPU);
        for (const int64_t id : std::set<int64_t>(ids.begin(), ids.end())) {
          if (id >= 50) continue;
          const double logit = logits[id].item<double>();
          logits[id] = logit < 0 ? logit * 1.4 : logit / 1.4;
        }
        CHECK(logits.argmax().item<int64_t>() == chosen);
        ids.push_back(chosen);
      }
    }
    CHECK(answers[0].size() <= 4);
  }
}

TEST_CASE("who listens hears every token once, in its answer's order, and can end answers") {
  Decoder model(TinyConfig());
  const Ids prompts = MixedPrompts(30);
  GenerateOptions options{.max_new_tokens = 9,
                          .stop_ids = {Generate(model, {prompts[3]}, {.max_new_tokens = 5})[0][4]}};
  const Ids whole = Generate(model, prompts, options);
  Ids heard(prompts.size());
  std::vector<int> ends(prompts.size());
  const Ids answers = Generate(model, prompts, options, [&](absl::Span<NewToken> tokens) {
    for (NewToken& token : tokens) {
      heard.at(token.prompt).push_back(token.id);
      if (token.prompt % 2 == 1 && heard[token.prompt].size() == 3) token.is_last = true;
      ends[token.prompt] += token.is_last ? 1 : 0;
    }
  });
  CHECK(heard == answers);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const size_t size = i % 2 == 1 ? std::min<size_t>(3, whole[i].size()) : whole[i].size();
    CHECK(answers[i] == std::vector<int32_t>(whole[i].begin(), whole[i].begin() + size));
    CHECK(ends[i] == 1);
  }
}

TEST_CASE("options of sampling that make no sense are refused by name") {
  Decoder model(TinyConfig());
  const auto error = [&](const SamplingOptions& sampling) {
    return std::string(CatchTorch([&] {
                         Generate(model, kPrompts, {.sampling = sampling});
                         return absl::OkStatus();
                       }).message());
  };
  CHECK(absl::StrContains(error({.temperature = -1}), "temperature is -1, expected at least 0"));
  CHECK(absl::StrContains(error({.top_k = -2}), "top_k is -2, expected at least 0"));
  CHECK(absl::StrContains(error({.top_p = 1.5}), "top_p is 1.5, expected 0 to 1"));
  CHECK(absl::StrContains(error({.min_p = NAN}), "min_p is nan, expected 0 to 1"));
  CHECK(absl::StrContains(error({.repetition_penalty = 0}), "repetition_penalty is 0, expected above 0"));
}

TEST_CASE("logits that are no numbers end in an error when tokens are drawn from them") {
  Decoder model(TinyConfig());
  const torch::NoGradGuard no_grad;
  model.head_weight().fill_(NAN);
  const absl::Status status = CatchTorch([&] {
    Generate(model, kPrompts, {.sampling = {.temperature = 1.0}});
    return absl::OkStatus();
  });
  CHECK(absl::StrContains(status.message(), "no token can be drawn"));
}

}  // namespace
}  // namespace distill
