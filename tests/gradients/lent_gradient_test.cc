// A head's gradient that the loss makes where its bucket is.
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/task/distiller.h"
#include "libdistill/task/masked_distiller.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/model_gradients.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"
#include "tests/train/tiny_llama.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

constexpr int64_t kTokens = 6, kVocabulary = 40, kHidden = 8;

// States out of a table of words, which is the head as well if it is tied.
struct TinyModel : torch::nn::Module {
  explicit TinyModel(bool is_tied, torch::Dtype dtype = torch::kFloat32) : is_tied(is_tied) {
    torch::manual_seed(3);
    words = register_parameter("words", torch::randn({kVocabulary, kHidden}).to(dtype));
    if (!is_tied) head = register_parameter("head", torch::randn({kVocabulary, kHidden}).to(dtype));
  }
  const torch::Tensor& head_weight() const { return is_tied ? words : head; }
  torch::Tensor Loss(int64_t step, const torch::Tensor& memory,
                     const std::function<void(const torch::Tensor&)>& take = nullptr) const {
    const torch::Tensor ids = (torch::arange(kTokens) * 3 + step).remainder(kVocabulary);
    return DistillationLoss({.student_hidden = at::embedding(words, ids),
                             .student_weight = head_weight(),
                             .student_bias = {},
                             .teacher_hidden = {},
                             .teacher_weight = {},
                             .teacher_bias = {},
                             .labels = (ids + 1).remainder(kVocabulary),
                             .student_weight_gradient = memory,
                             .take_student_weight_gradient = take},
                            {.alpha = 0, .chunk_tokens = 4})
        .loss;
  }

  const bool is_tied;
  torch::Tensor words, head;
};

using Reducer = std::unique_ptr<GradientReducer>;

// Each parameter's gradient in float32, in the buckets; with and without memory that is lent.
absl::StatusOr<std::vector<torch::Tensor>> Sums(GradientReducer& reducer, const TinyModel& model, int64_t step,
                                                int64_t micro_batches, bool lends) {
  reducer.StartStep();
  for (int64_t m = 0; m < micro_batches; ++m) {
    std::optional<GradientReducer::NoSync> no_sync;
    if (m + 1 < micro_batches) no_sync.emplace(reducer);
    torch::Tensor memory = lends ? reducer.Lend(model.head_weight()) : torch::Tensor();
    DISTILL_RETURN_IF_ERROR(Expect(memory.defined() == (lends && m == 0), "lends in the first pass, and not later"));
    if (lends && m == 0) memory.fill_(NAN);
    const bool twice = reducer.Lend(model.head_weight()).defined() && memory.defined();
    DISTILL_RETURN_IF_ERROR(Expect(!twice, "lends the same memory twice"));
    model.Loss(10 * step + m, std::move(memory)).backward();
  }
  absl::Status mine;
  DISTILL_RETURN_IF_ERROR(reducer.Finish(mine));
  std::vector<torch::Tensor> sums;
  for (size_t i = 0; i < reducer.buckets().parameters().size(); ++i) {
    sums.push_back(reducer.buckets().OwnGradient(i).clone());
  }
  return sums;
}

absl::Status CompareLent(const World& world, int zero_stage) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.backend = "shm"}));
  for (const bool is_tied : {false, true}) {
    const TinyModel model(is_tied);
    DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(model, {}));
    DISTILL_ASSIGN_OR_RETURN(const Reducer reducer,
                             GradientReducer::Create(*comm, parameters, {.bucket_bytes = 1, .zero_stage = zero_stage}));
    DISTILL_RETURN_IF_ERROR(Expect(!reducer->Lend(model.head_weight()).defined(), "lends outside of a step"));
    for (int64_t step = 0; step < 4; ++step) {
      const int64_t micro_batches = 1 + step % 2;
      DISTILL_ASSIGN_OR_RETURN(const auto expected, Sums(*reducer, model, step, micro_batches, /*lends=*/false));
      DISTILL_ASSIGN_OR_RETURN(const auto lent, Sums(*reducer, model, step, micro_batches, /*lends=*/true));
      for (size_t i = 0; i < lent.size(); ++i) {
        DISTILL_RETURN_IF_ERROR(Expect(torch::equal(lent[i], expected[i]),
                                       absl::StrCat(parameters[i].name, " has another gradient, tied ", is_tied)));
      }
    }
  }
  return absl::OkStatus();
}

// Three micro-batches, of the first of which the gradient is made in the bucket.
absl::Status CompareWide(const World& world, torch::Dtype dtype, bool is_tied) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.backend = "shm"}));
  const TinyModel model(is_tied, dtype);
  DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(model, {}));
  DISTILL_ASSIGN_OR_RETURN(const Reducer reducer, GradientReducer::Create(*comm, parameters, {.bucket_bytes = 1}));
  const torch::Tensor& weight = model.head_weight();
  DISTILL_RETURN_IF_ERROR(Expect(!reducer->TakesWide(weight), "takes outside of a step"));
  for (int64_t step = 0; step < 3; ++step) {
    torch::Tensor expected = torch::zeros({kVocabulary, kHidden});  // what the losses themselves know, in float32
    reducer->StartStep();
    DISTILL_RETURN_IF_ERROR(Expect(reducer->TakesWide(weight), "does not take"));
    for (int64_t m = 0; m < 3; ++m) {
      std::optional<GradientReducer::NoSync> no_sync;
      if (m < 2) no_sync.emplace(*reducer);
      model
          .Loss(10 * step + m, reducer->Lend(weight),
                [&](const torch::Tensor& gradient) {
                  expected += gradient;
                  reducer->AddWide(weight, gradient);
                })
          .backward();
    }
    absl::Status mine;
    DISTILL_RETURN_IF_ERROR(reducer->Finish(mine));
    expected *= world.world_size;  // every rank has the same
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].tensor.is_same(weight)) continue;
      const torch::Tensor sum = reducer->buckets().OwnGradient(i);
      const bool rounded = torch::equal(sum.to(dtype).to(torch::kFloat32), sum);
      DISTILL_RETURN_IF_ERROR(Expect(!rounded, "was rounded"));
      // A tied table has the rows' part beside it, in autograd's type.
      DISTILL_RETURN_IF_ERROR(Expect(is_tied || torch::equal(sum, expected.flatten()), "another gradient"));
      DISTILL_RETURN_IF_ERROR(Expect(step == 0 || reducer->stats().early_buckets > 0, "left late"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

TEST_CASE("a gradient that is made in its bucket is the one that is moved there") {
  CHECK(Failures(RunRanks(1, absl::Seconds(60), [](const World& world) { return CompareLent(world, 0); })) == "");
  for (const int zero_stage : {0, 1}) {
    INFO("stage " << zero_stage);
    CHECK(Failures(RunRanks(2, absl::Seconds(60),
                            [&](const World& world) { return CompareLent(world, zero_stage); })) == "");
  }
}

TEST_CASE("the gradient of a narrow head comes to its bucket in float32, early, and adds up there") {
  for (const torch::Dtype dtype : {torch::kBFloat16, torch::kFloat16}) {
    for (const bool is_tied : {false, true}) {
      for (const int ranks : {1, 2}) {
        INFO(dtype << ", tied " << is_tied << ", " << ranks << " ranks");
        CHECK(Failures(RunRanks(ranks, absl::Seconds(60),
                                [&](const World& world) { return CompareWide(world, dtype, is_tied); })) == "");
      }
    }
  }
}

TEST_CASE("a user's hook on a narrow head sees its gradient, and a float32 head's is autograd's matter") {
  const auto alone = CreateAloneCommunicator();
  for (const torch::Dtype dtype : {torch::kBFloat16, torch::kFloat32}) {
    const TinyModel model(/*is_tied=*/false, dtype);
    const auto parameters = CollectParameters(model, {}).value();
    const Reducer reducer = GradientReducer::Create(*alone, parameters, {}).value();
    reducer->StartStep();
    CHECK(reducer->TakesWide(model.head_weight()) == (dtype == torch::kBFloat16));
    model.head.register_hook([](const torch::Tensor&) {});
    CHECK_FALSE(reducer->TakesWide(model.head_weight()));
    CHECK_FALSE(reducer->TakesWide(torch::zeros({2}, dtype)));
    absl::Status mine;
    REQUIRE(reducer->Finish(mine).ok());
    const absl::Status late = CatchTorch([&] {
      reducer->AddWide(model.head_weight(), torch::zeros({kVocabulary, kHidden}));
      return absl::OkStatus();
    });
    CHECK(ExpectError(late, absl::StatusCode::kInternal, {"before Finish"}) == absl::OkStatus());
  }
}

// A distiller's loss gives the head's gradient to the reducer of a bfloat16 student, and autograd none.
template <typename Loss>
void CheckGiven(LanguageModel& student, const Loss& loss) {
  const auto alone = CreateAloneCommunicator();
  const auto parameters = CollectParameters(student, {}).value();
  const std::shared_ptr<GradientReducer> reducer = GradientReducer::Create(*alone, parameters, {}).value();
  GiveGradientsTo(reducer, student);
  reducer->StartStep();
  loss().loss.backward();
  absl::Status mine;
  REQUIRE(reducer->Finish(mine).ok());
  REQUIRE(mine.ok());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor sum = reducer->buckets().OwnGradient(i);
    const bool is_rounded = torch::equal(sum.to(torch::kBFloat16).to(torch::kFloat32), sum);
    INFO(parameters[i].name);
    CHECK(is_rounded == !parameters[i].tensor.is_same(student.head_weight()));
  }
}

TEST_CASE("distillers give a bfloat16 student's head's gradient to its trainer in float32") {
  DecoderConfig config = testing::TinyLlama().value();
  config.tie_word_embeddings = false;
  const auto student = std::make_shared<Decoder>(config, /*seed=*/1), teacher = std::make_shared<Decoder>(config, 2);
  for (Decoder* model : {student.get(), teacher.get()}) model->to(torch::kBFloat16);
  TokenBatch batch;
  batch.rows = 1;
  batch.length = 4;
  batch.input_ids = batch.labels = {1, 2, 3, 4};
  batch.document_starts = {{0, 4}};
  // Each chunk's product is rounded, their sum is not.
  const auto distiller = Distiller::Create(teacher, student, {.chunk_tokens = 1}).value();
  CheckGiven(*student, [&] { return distiller(batch); });
  const auto masked = MaskedDistiller::Create(teacher, student, {.chunk_tokens = 1}).value();
  CheckGiven(*student, [&] { return masked(batch, 1); });
}

TEST_CASE("where gradients have no place of their own nothing is lent") {
  CHECK(Failures(RunRanks(2, absl::Seconds(60), [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.backend = "shm"}));
          const TinyModel model(/*is_tied=*/false);
          DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(model, {}));
          DISTILL_ASSIGN_OR_RETURN(const Reducer reducer,
                                   GradientReducer::Create(*comm, parameters, {.zero_stage = 2}));
          reducer->StartStep();
          const bool lends = reducer->Lend(model.head_weight()).defined();
          absl::Status mine;
          DISTILL_RETURN_IF_ERROR(reducer->Finish(mine));
          return Expect(!lends, "stage 2 lends");
        })) == "");
}

TEST_CASE("a loss whose gradient was asked for too late, after the step's end, fails") {
  const auto alone = CreateAloneCommunicator();
  const TinyModel model(/*is_tied=*/false);
  const auto parameters = CollectParameters(model, {}).value();
  const Reducer reducer = GradientReducer::Create(*alone, parameters, {}).value();
  reducer->StartStep();
  const torch::Tensor loss = model.Loss(0, reducer->Lend(model.head_weight()));
  absl::Status mine;
  REQUIRE(reducer->Finish(mine).ok());  // which fills the memory with zeros
  const absl::Status late = CatchTorch([&] {
    loss.backward();
    return absl::OkStatus();
  });
  CHECK(ExpectError(late, absl::StatusCode::kInternal, {"modified by an inplace operation"}) == absl::OkStatus());
}

TEST_CASE("training lends a distiller the memory of its student's head's gradient, once a step") {
  const testing::TempFolder output;
  CHECK(Failures(RunRanks(2, absl::Seconds(60), [&](const World& world) -> absl::Status {
          torch::set_num_threads(1);
          DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.backend = "shm"}));
          RunContext run(world, std::move(comm), torch::kCPU);
          DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, testing::TinyLlama());
          const auto student = std::make_shared<Decoder>(config);
          DISTILL_ASSIGN_OR_RETURN(const auto distiller, Distiller::Create(nullptr, student, {.alpha = 0}));
          const auto data = MakeTokenDataset({{{1, 2, 3, 4}, {0, 1, 1, 1}}, {{5, 6, 7, 8}, {0, 1, 1, 1}}});
          DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(data, run.rank(), run.world_size(), {}));
          DISTILL_ASSIGN_OR_RETURN(const auto trainer,
                                   Trainer::Create(run, student, {.output_dir = output.path(), .max_steps = 3}));
          int64_t lent = 0, taken = 0;
          const TokenLoss loss = [&](const TokenBatch& batch) {
            if (student->HeadGradientMemory().defined()) ++lent;  // and is given back here
            LossSum sum = distiller(batch);
            if (!student->HeadGradientMemory().defined()) ++taken;  // by the loss, until its backward pass
            return sum;
          };
          DISTILL_RETURN_IF_ERROR(trainer->Fit(sharder, loss).status());
          return Expect(lent == 3 && taken == 3, absl::StrCat("lent ", lent, " times, taken ", taken, " times, of 3"));
        })) == "");
}

TEST_CASE("the backward pass of an earlier step's loss fails once its gradient's memory is used anew") {
  const auto alone = CreateAloneCommunicator();
  const TinyModel model(/*is_tied=*/false);
  const auto parameters = CollectParameters(model, {}).value();
  const Reducer reducer = GradientReducer::Create(*alone, parameters, {}).value();
  CHECK_FALSE(reducer->Lend(torch::zeros({2})).defined());
  reducer->StartStep();
  torch::Tensor memory = reducer->Lend(model.head_weight());
  REQUIRE(memory.defined());
  const torch::Tensor early = model.Loss(0, std::exchange(memory, {}));
  absl::Status mine;
  REQUIRE(reducer->Finish(mine).ok());
  reducer->StartStep();
  CHECK_FALSE(reducer->Lend(model.head_weight()).defined());  // `early` still has it
  const absl::Status late = CatchTorch([&] {
    early.backward();
    return absl::OkStatus();
  });
  CHECK(ExpectError(late, absl::StatusCode::kInternal, {"modified by an inplace operation"}) == absl::OkStatus());
  REQUIRE(reducer->Finish(mine).ok());
}

}  // namespace distill
