// Whole runs of encoders and of a recurrent network, on one rank: what the metric of peak memory then says, against the
// plan. Decoders' are in memory_plan.py.
#include <ATen/ops/ctc_loss.h>
#include <torch/nn/functional/loss.h>

#include <cstdio>

#include "absl/strings/str_format.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/encoder.h"
#include "libdistill/nn/encoder_heads.h"
#include "libdistill/nn/gru.h"
#include "libdistill/plan/memory_plan.h"
#include "libdistill/task/masked_distillation.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/peak_memory.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/counted_task.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill::trained_memory {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

constexpr int64_t kRows = 4, kLength = 128;

// One micro-batch a step, always the same.
class Repeated : public testing::CountedTask {
 public:
  Repeated(std::vector<TermWeight> terms, MicroStep step) : terms_(std::move(terms)), step_(std::move(step)) {}
  std::vector<TermWeight> LossTerms() const override { return terms_; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override { return ++made_, std::vector<MicroStep>{step_}; }

 private:
  const std::vector<TermWeight> terms_;
  const MicroStep step_;
};

// What is trained; models are made here, within the rank's process, behind MeasureProcess.
struct Made {
  std::shared_ptr<torch::nn::Module> module;
  std::unique_ptr<Task> task;
};

EncoderConfig Shape(const std::string& type, int64_t layers) {
  EncoderConfig config;
  config.model_type = type;
  config.vocab_size = 8192;
  config.hidden_size = 384;
  config.intermediate_size = 1536;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 6;
  config.type_vocab_size = type == "bert" ? 2 : 0;
  return config;
}

TokenInput Rows() { return {.input_ids = torch::full({kRows, kLength}, 5, torch::kInt64), .document_starts = {}}; }

Made MakeMasked() {
  const auto teacher = std::make_shared<Encoder>(Shape("bert", 6));
  const auto student = std::make_shared<Encoder>(Shape("distilbert", 4));
  student->EnableDropout();
  const auto objective = OrThrow(MaskedDistillation::Create(LiveTeacher(teacher), student, {}));
  TokenBatch batch;
  batch.rows = kRows;
  batch.length = kLength;
  batch.input_ids.assign(kRows * kLength, 5);
  batch.labels.assign(kRows * kLength, 6);
  batch.document_starts.assign(kRows, {0, kLength});
  MicroStep step{.counts = objective->Counts(batch), .num_samples = kRows};
  step.forward = [objective, batch](const PassScale& scale) { return objective->Forward(batch, scale); };
  return {student, std::make_unique<Repeated>(objective->LossTerms(), std::move(step))};
}

Made MakeClassifier() {
  const auto model = std::make_shared<SequenceClassifier>(Shape("distilbert", 4), /*labels=*/2);
  model->EnableDropout();
  MicroStep step{.counts = {kRows}, .num_samples = kRows};
  step.forward = [model, labels = torch::ones({kRows}, torch::kInt64)](const PassScale&) {
    const auto sum = F::CrossEntropyFuncOptions().reduction(torch::kSum);
    return Losses{{"loss", F::cross_entropy(model->forward(Rows()), labels, sum), kRows}};
  };
  return {model, std::make_unique<Repeated>(std::vector<TermWeight>{{"loss"}}, std::move(step))};
}

Made MakeSpans() {
  const auto model = std::make_shared<SpanModel>(Shape("bert", 4));
  MicroStep step{.counts = {kRows}, .num_samples = kRows};
  step.forward = [model](const PassScale&) {
    const Tensor logits = model->forward(Rows());
    return Losses{{"loss", -at::log_softmax(logits, 1).select(1, 3).sum(), kRows}};
  };
  return {model, std::make_unique<Repeated>(std::vector<TermWeight>{{"loss"}}, std::move(step))};
}

constexpr int64_t kTargets = 20;
constexpr GruOptions kGru = {.features = 512, .hidden = 256, .layers = 3, .classes = 41, .dropout = 0.4};

Made MakeGru() {
  const auto model = std::make_shared<GruCtc>(kGru);
  MicroStep step{.counts = {8}, .num_samples = 8};
  step.forward = [model, features = torch::randn({8, 150, kGru.features})](const PassScale&) {
    const auto [log_probabilities, lengths] = model->forward(features, torch::full({8}, 150, torch::kInt64));
    const Tensor targets = torch::ones({8, kTargets}, torch::kInt64);
    return Losses{{"loss",
                   at::ctc_loss(log_probabilities, targets, lengths, torch::full({8}, kTargets, torch::kInt64),
                                /*blank=*/0, at::Reduction::Sum),
                   8}};
  };
  return {model, std::make_unique<Repeated>(std::vector<TermWeight>{{"loss"}}, std::move(step))};
}

class PeakOfLastStep : public Observer {
 public:
  absl::Status OnStep(const StepRecord&, TrainingControl&) override {
    bytes = PeakMemoryBytes(torch::kCPU);
    return absl::OkStatus();
  }
  int64_t bytes = 0;
};

absl::Status Compare(const World& world, const std::string& what, MemoryPlanTask task,
                     const std::function<Made()>& make) {
  constexpr double kTolerance = 0.1;
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
  RunContext run(world, std::move(comm), torch::kCPU);
  task.process = MeasureProcess(torch::kFloat32);
  DISTILL_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(task));
  const testing::TempFolder folder;
  Made made = make();
  TrainerOptions options{.output_dir = folder.path(), .max_steps = 2};
  options.bf16 = Switch::kFalse;
  DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, made.module, options));
  const auto peak = std::make_shared<PeakOfLastStep>();
  trainer->AddObserver(peak);
  DISTILL_RETURN_IF_ERROR(trainer->Fit(*made.task).status());
  const double planned = static_cast<double>(plan.rank_bytes()), measured = static_cast<double>(peak->bytes);
  const std::string text = absl::StrFormat("%s: planned %.3f GiB, measured %.3f (%+.1f %%)", what, planned / (1 << 30),
                                           measured / (1 << 30), 100 * (planned / measured - 1));
  std::puts(text.c_str());
  std::fflush(stdout);
  return testing::Expect(std::abs(planned / measured - 1) < kTolerance, text + "\n" + DescribePlan(task, plan, {}));
}

void Check(const std::string& what, const MemoryPlanTask& task, const std::function<Made()>& make) {
  const auto outcomes =
      testing::RunRanks(1, absl::Seconds(100), [&](const World& world) { return Compare(world, what, task, make); });
  CHECK(testing::Failures(outcomes) == "");
}

TEST_CASE("runs of encoders and of a recurrent network take what is planned, within a tenth") {
  MemoryPlanTask task{.rows = kRows, .length = kLength};
  task.student = Planned(Shape("distilbert", 4), EncoderUse::kWords);
  task.teacher = Planned(Shape("bert", 6), EncoderUse::kWords);
  task.dropout = task.keeps_teacher_states = true;
  Check("masked words", task, MakeMasked);
  task.teacher.reset();
  task.keeps_teacher_states = false;
  task.student = Planned(Shape("distilbert", 4), EncoderUse::kClass);
  Check("classes", task, MakeClassifier);
  task.dropout = false;
  task.student = Planned(Shape("bert", 4), EncoderUse::kSpan);
  Check("spans", task, MakeSpans);
  Check("a recurrent network", {.student = Planned(kGru, kTargets), .dropout = true, .rows = 8, .length = 150},
        MakeGru);
}

}  // namespace
}  // namespace distill::trained_memory
