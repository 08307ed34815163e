// Training a part of a decoder's weights: the losses and weights of plain autograd and torch's own optimizer, on any
// number of ranks and in every stage, while what is frozen keeps its bits and costs nothing.
#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/task/logit_distillation.h"
#include "libdistill/task/unfreeze.h"
#include "libdistill/train/trainer.h"
#include "tests/plan/counted_tensors.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"
#include "tests/train/sentences.h"

namespace distill {
namespace {

using testing::BatchOf;
using testing::ChoosePart;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::kLength;
using testing::kRows;
using testing::RunRanks;
using testing::Sentences;
using testing::Shape;

constexpr auto kLimit = absl::Seconds(120);
constexpr double kRate = 0.01, kDecay = 0.1;

struct Case {
  std::vector<std::string> patterns;  // of ChoosePart
  bool is_tied = false;
  int64_t stage = 0;
  bool recomputes = false;
  int64_t steps = 4;
  std::string folder = {}, resume = {};
  uint64_t seed = 42;
};

absl::StatusOr<std::shared_ptr<Decoder>> Make(const Case& c) {
  auto model = std::make_shared<Decoder>(Shape(c.is_tied), c.seed);
  if (c.recomputes) model->EnableGradientCheckpointing();
  DISTILL_RETURN_IF_ERROR(ChoosePart(c.patterns, *model));
  return model;
}

struct Outcome {
  double loss = 0;  // the mean over all steps
  std::vector<torch::Tensor> weights;
};

absl::StatusOr<Outcome> Train(const World& world, const Case& c) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
  RunContext run(world, std::move(comm), torch::kCPU);
  DISTILL_ASSIGN_OR_RETURN(const auto model, Make(c));
  DISTILL_ASSIGN_OR_RETURN(auto objective, LogitDistillation::CreateLive(nullptr, model, {.alpha = 0}));
  Sentences sentences(objective, world);
  sentences.save = [](const std::string&) { return absl::OkStatus(); };
  TrainerOptions options = {.output_dir = c.folder,
                            .max_steps = c.steps,
                            .learning_rate = kRate,
                            .weight_decay = kDecay,
                            .warmup_ratio = 0,
                            .lr_scheduler_type = SchedulerType::kConstant,
                            .max_grad_norm = 0,
                            .logging_steps = 0,
                            .save_steps = c.folder.empty() ? 0 : 2,
                            .resume_from_checkpoint = c.resume,
                            .bucket_bytes = 3000};
  options.zero_stage = c.stage;
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, model, options));
  DISTILL_ASSIGN_OR_RETURN(const TrainResult result, trainer->Fit(sentences));
  return Outcome{result.train_loss, model->parameters()};
}

torch::optim::AdamW OptimizerOf(const Decoder& model) {
  std::vector<torch::Tensor> decaying, others;
  for (const torch::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) (parameter.dim() > 1 ? decaying : others).push_back(parameter);
  }
  const auto options = torch::optim::AdamWOptions(kRate);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& [parameters, decay] : {std::pair(decaying, kDecay), std::pair(others, 0.0)}) {
    if (parameters.empty()) continue;
    auto own = std::make_unique<torch::optim::AdamWOptions>(options);
    own->weight_decay(decay);
    groups.emplace_back(parameters, std::move(own));
  }
  return torch::optim::AdamW(groups, options);
}

// Whole logits, autograd, torch's optimizer; nothing of the library's but the model.
absl::StatusOr<Outcome> TrainPlainly(Case c) {
  torch::set_num_threads(1);
  c.recomputes = false;
  DISTILL_ASSIGN_OR_RETURN(const auto model, Make(c));
  torch::optim::AdamW optimizer = OptimizerOf(*model);
  Outcome outcome;
  for (int64_t step = 0; step < c.steps; ++step) {
    std::vector<int64_t> ids, labels;
    for (int64_t row = 0; row < kRows; ++row) {
      const TokenBatch batch = BatchOf(step, row);
      ids.insert(ids.end(), batch.input_ids.begin(), batch.input_ids.end());
      labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
    }
    const torch::Tensor hidden = model->Hidden({torch::tensor(ids).view({kRows, kLength}), {}});
    const torch::Tensor logits = hidden.flatten(0, 1).matmul(model->head_weight().t());
    const torch::Tensor loss = torch::nn::functional::cross_entropy(
        logits, torch::tensor(labels), torch::nn::functional::CrossEntropyFuncOptions().ignore_index(-100));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    outcome.loss += loss.item<double>() / static_cast<double>(c.steps);
  }
  outcome.weights = model->parameters();
  return outcome;
}

absl::Status Compare(const World& world, const Case& c) {
  DISTILL_ASSIGN_OR_RETURN(const Outcome expected, TrainPlainly(c));
  DISTILL_ASSIGN_OR_RETURN(const Outcome actual, Train(world, c));
  DISTILL_ASSIGN_OR_RETURN(const auto start, Make(c));
  const auto names = start->named_parameters();
  const std::string loss = absl::StrCat("losses ", actual.loss, " and ", expected.loss);
  DISTILL_RETURN_IF_ERROR(Expect(std::abs(actual.loss - expected.loss) < 1e-5 * expected.loss, loss));
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i].key();
    const torch::Tensor& before = names[i].value();
    if (!before.requires_grad()) {
      DISTILL_RETURN_IF_ERROR(Expect(actual.weights[i].equal(before), absl::StrCat(name, " is frozen, and changed")));
      continue;
    }
    // Of a bias of keys the gradient is zero but for rounding, and Adam makes steps of it.
    if (absl::StrContains(name, "k_proj.bias")) continue;
    DISTILL_RETURN_IF_ERROR(Expect(!actual.weights[i].equal(before), absl::StrCat(name, " did not change")));
    DISTILL_RETURN_IF_ERROR(Expect(torch::allclose(actual.weights[i], expected.weights[i], 1e-3, 1e-4),
                                   absl::StrCat(name, " is another one")));
  }
  return absl::OkStatus();
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {.patterns = {"model.layers.1.self_attn.q_proj", "model.layers.2.mlp.down_proj"}},  // the lowest block is frozen
      {.patterns = {"model.layers.1.mlp"}, .is_tied = true},                              // and the highest one
      {.patterns = {"^lm_head.weight$"}},                                                 // no block at all
      {.patterns = {"^lm_head.weight$", "model.layers.2.self_attn"}, .is_tied = true},  // the table, by its head's name
      {.patterns = {"^model.norm.weight$", "model.layers.0.(mlp|input_layernorm)"}},
      {.patterns = {"."}, .is_tied = true},
      {.patterns = {"lora", "all-linear"}},
      {.patterns = {"lora", "layers.1.self_attn.q_proj,layers.2.mlp.down_proj"}, .is_tied = true},
  };
  return cases;
}

TEST_CASE("a part of a model is trained as by plain autograd, on any ranks and in every stage") {
  for (const Case& of : Cases()) {
    for (const int ranks : {1, 2}) {
      for (const int64_t stage : {0, 1, 2, 3}) {
        if (ranks == 1 && stage > 0) continue;
        for (const bool recomputes : {false, true}) {
          if (recomputes && stage != 0 && stage != 3) continue;
          INFO(of.patterns[0] << ", " << ranks << " ranks, stage " << stage << ", recomputes " << recomputes);
          Case c = of;
          c.stage = stage;
          c.recomputes = recomputes;
          CHECK(Failures(RunRanks(ranks, kLimit, [&](const World& world) { return Compare(world, c); })) == "");
        }
      }
    }
  }
}

TEST_CASE("a run that trains a part is resumed with the same part, and with no other") {
  for (const int64_t stage : {0, 3}) {
    const testing::TempFolder folder;
    Case first = Cases()[0];
    first.stage = stage;
    first.folder = folder.path();
    first.steps = 2;
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) { return Train(world, first).status(); })) == "");
    Case second = first;
    second.resume = absl::StrCat(folder.path(), "/checkpoint-2");
    second.steps = 4;
    for (const auto& [patterns, what] :
         {std::pair<std::vector<std::string>, std::string>{{"model.layers.1.self_attn.q_proj"}, "down_proj"},
          {{"model.layers.1.self_attn.q_proj", "model.layers.[02].mlp.down_proj"}, "model.layers.0.mlp.down_proj"}}) {
      Case other = second;
      other.patterns = patterns;
      CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) {
              return ExpectError(Train(world, other).status(), absl::StatusCode::kInvalidArgument,
                                 {what, "layers_to_unfreeze"});
            })) == "");
    }
    Case elsewhere = second;
    elsewhere.seed = 43;
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) {
            return ExpectError(Train(world, elsewhere).status(), absl::StatusCode::kFailedPrecondition,
                               {"weights that are not trained are others", "student_model"});
          })) == "");
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
            Case undisturbed = second;
            undisturbed.folder = undisturbed.resume = "";
            DISTILL_ASSIGN_OR_RETURN(const Outcome expected, Train(world, undisturbed));
            DISTILL_ASSIGN_OR_RETURN(const Outcome actual, Train(world, second));
            for (size_t i = 0; i < expected.weights.size(); ++i) {
              DISTILL_RETURN_IF_ERROR(Expect(torch::allclose(actual.weights[i], expected.weights[i], 1e-5, 1e-6),
                                             absl::StrCat("parameter ", i, " is another one")));
            }
            return absl::OkStatus();
          })) == "");
  }
}

// What tensors take when a step is over, and what the highest block's backward pass has had at most.
class Watch : public Observer {
 public:
  explicit Watch(const Tensors& tensors) : tensors_(tensors) {}
  absl::Status OnStep(const StepRecord&, TrainingControl&) override {
    now = tensors_.now();
    return absl::OkStatus();
  }
  int64_t now = 0;

 private:
  const Tensors& tensors_;
};

TEST_CASE("frozen weights have neither an optimizer's state nor gradients") {
  CHECK(Failures(RunRanks(1, kLimit, [](const World& world) -> absl::Status {
          const auto tensors = std::make_shared<Tensors>();
          const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, tensors);
          torch::set_num_threads(1);
          RunContext run(world, CreateAloneCommunicator(), torch::kCPU);
          const auto model = std::make_shared<Decoder>(Shape(/*is_tied=*/true, /*hidden=*/256));
          DISTILL_RETURN_IF_ERROR(UnfreezeOnly({{"layers.2.mlp.down_proj", "test:1"}}, *model));
          DISTILL_ASSIGN_OR_RETURN(auto objective, LogitDistillation::CreateLive(nullptr, model, {.alpha = 0}));
          Sentences sentences(objective, world);
          const int64_t before = tensors->now();
          DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, model, {.max_steps = 3, .save_steps = 0}));
          const auto watch = std::make_shared<Watch>(*tensors);
          trainer->AddObserver(watch);
          DISTILL_RETURN_IF_ERROR(trainer->Fit(sentences).status());
          for (const auto& item : model->named_parameters()) {
            const bool has_gradient = item.value().grad().defined();
            DISTILL_RETURN_IF_ERROR(Expect(!has_gradient || item.value().requires_grad(), item.key()));
          }
          const int64_t moments = 2 * 256 * 40 * 4, more = watch->now - before;
          return Expect(more >= moments && more < moments + 20000,
                        absl::StrCat(more, " bytes more, of moments ", moments));
        })) == "");
}

}  // namespace
}  // namespace distill
