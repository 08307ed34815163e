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
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/model_gradients.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/task/distiller.h"
#include "libdistill/task/make_task.h"
#include "libdistill/task/masked_distillation.h"
#include "libdistill/tensor/catch_torch.h"
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
                     const std::function<void(const torch::Tensor&)>& take = nullptr, bool adds = false) const {
    const torch::Tensor ids = (torch::arange(kTokens) * 3 + step).remainder(kVocabulary);
    return DistillationLoss({.student_hidden = at::embedding(words, ids),
                             .student_weight = head_weight(),
                             .student_bias = {},
                             .teacher_hidden = {},
                             .teacher_weight = {},
                             .teacher_bias = {},
                             .labels = (ids + 1).remainder(kVocabulary),
                             .student_weight_gradient = memory,
                             .adds_student_weight_gradient = adds,
                             .take_student_weight_gradient = take},
                            {.alpha = 0, .chunk_tokens = 4})
        .loss;
  }

  const bool is_tied;
  torch::Tensor words, head;
};

using Reducer = std::unique_ptr<GradientReducer>;

// Each parameter's gradient in float32, in the buckets; with and without borrowed memory.
absl::StatusOr<std::vector<torch::Tensor>> Sums(GradientReducer& reducer, const TinyModel& model, int64_t step,
                                                int64_t micro_batches, bool borrows) {
  reducer.StartStep();
  for (int64_t m = 0; m < micro_batches; ++m) {
    std::optional<GradientReducer::NoSync> no_sync;
    if (m + 1 < micro_batches) no_sync.emplace(reducer);
    torch::Tensor memory = borrows ? reducer.Borrow(model.head_weight()) : torch::Tensor();
    DISTILL_RETURN_IF_ERROR(
        Expect(memory.defined() == (borrows && m == 0), "gives memory in the first pass, and not later"));
    if (borrows && m == 0) memory.fill_(NAN);
    const bool twice = reducer.Borrow(model.head_weight()).defined() && memory.defined();
    DISTILL_RETURN_IF_ERROR(Expect(!twice, "gives the same memory twice"));
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

absl::Status CompareBorrowed(const World& world, int zero_stage) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.backend = BackendPreference::kShm}));
  for (const bool is_tied : {false, true}) {
    const TinyModel model(is_tied);
    DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(model, {}));
    DISTILL_ASSIGN_OR_RETURN(const Reducer reducer,
                             GradientReducer::Create(*comm, parameters, {.bucket_bytes = 1, .zero_stage = zero_stage}));
    DISTILL_RETURN_IF_ERROR(Expect(!reducer->Borrow(model.head_weight()).defined(), "gives memory outside of a step"));
    for (int64_t step = 0; step < 4; ++step) {
      const int64_t micro_batches = 1 + step % 2;
      DISTILL_ASSIGN_OR_RETURN(const auto expected, Sums(*reducer, model, step, micro_batches, /*borrows=*/false));
      DISTILL_ASSIGN_OR_RETURN(const auto borrowed, Sums(*reducer, model, step, micro_batches, /*borrows=*/true));
      for (size_t i = 0; i < borrowed.size(); ++i) {
        DISTILL_RETURN_IF_ERROR(Expect(torch::equal(borrowed[i], expected[i]),
                                       absl::StrCat(parameters[i].name, " has another gradient, tied ", is_tied)));
      }
    }
  }
  return absl::OkStatus();
}

// Three micro-batches, of the first of which the gradient is made in the bucket.
absl::Status CompareWide(const World& world, torch::Dtype dtype, bool is_tied) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.backend = BackendPreference::kShm}));
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
          .Loss(10 * step + m, reducer->Borrow(weight),
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

// The head's gradient of three micro-batches, as `reducer` has it.
absl::StatusOr<torch::Tensor> HeadSum(GradientReducer& reducer, const TinyModel& model, int64_t step, bool adds) {
  const torch::Tensor& weight = model.head_weight();
  reducer.StartStep();
  for (int64_t m = 0; m < 3; ++m) {
    std::optional<GradientReducer::NoSync> no_sync;
    if (m < 2) no_sync.emplace(reducer);
    torch::Tensor memory = adds ? reducer.Borrow(weight) : torch::Tensor();
    const bool is_sum = adds && m > 0;
    DISTILL_RETURN_IF_ERROR(Expect(memory.defined() == (adds && m == 0), "has a place in the first pass alone"));
    DISTILL_RETURN_IF_ERROR(Expect(m > 0 || !reducer.BorrowSum(weight).defined(), "gives a sum that there is not"));
    if (is_sum) memory = reducer.BorrowSum(weight);
    DISTILL_RETURN_IF_ERROR(Expect(memory.defined() == adds, "gives no sum"));
    std::function<void(const torch::Tensor&)> take;
    if (is_sum || reducer.TakesWide(weight)) {
      take = [&](const torch::Tensor& gradient) { reducer.AddWide(weight, gradient); };
    }
    model.Loss(10 * step + m, std::move(memory), take, is_sum).backward();
  }
  absl::Status mine;
  DISTILL_RETURN_IF_ERROR(reducer.Finish(mine));
  DISTILL_RETURN_IF_ERROR(mine);
  for (size_t i = 0; i < reducer.buckets().parameters().size(); ++i) {
    if (reducer.buckets().parameters()[i].tensor.is_same(weight)) return reducer.buckets().OwnGradient(i).clone();
  }
  return absl::InternalError("no head");
}

absl::Status CompareAdded(const World& world, const GradientReducerOptions& options, torch::Dtype dtype) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.backend = BackendPreference::kShm}));
  for (const bool is_tied : {false, true}) {
    const TinyModel model(is_tied, dtype);
    DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(model, {}));
    DISTILL_ASSIGN_OR_RETURN(const Reducer reducer, GradientReducer::Create(*comm, parameters, options));
    for (int64_t step = 0; step < 3; ++step) {  // in later ones buckets leave under the backward pass
      DISTILL_ASSIGN_OR_RETURN(const torch::Tensor expected, HeadSum(*reducer, model, step, /*adds=*/false));
      DISTILL_ASSIGN_OR_RETURN(const torch::Tensor sum, HeadSum(*reducer, model, step, /*adds=*/true));
      const double error = (sum - expected).abs().max().item<double>() / expected.abs().max().item<double>();
      // Compressed sums may be rounded to the other neighbour.
      const double tolerance = options.compression == GradientCompression::kNone ? 1e-6 : 1e-2;
      DISTILL_RETURN_IF_ERROR(Expect(error < tolerance, absl::StrCat("tied ", is_tied, ": an error of ", error)));
    }
  }
  return absl::OkStatus();
}

// Notes what there is to be borrowed before each loss, and gives it back.
class WatchedDecoder : public Decoder {
 public:
  using Decoder::Decoder;
  torch::Tensor HeadInput(const torch::Tensor& hidden) const override {
    places += gradient_sink()->Borrow(head_weight()).defined() ? 1 : 0;
    sums += gradient_sink()->BorrowSum(head_weight()).defined() ? 1 : 0;
    return Decoder::HeadInput(hidden);
  }
  mutable int64_t places = 0, sums = 0;
};

}  // namespace

TEST_CASE("later micro-batches add the head's gradient to the sum in its bucket, tied or not, compressed or not") {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
    for (const int zero_stage : {0, 1}) {
      for (const GradientCompression compression : {GradientCompression::kNone, GradientCompression::kBf16}) {
        for (const int ranks : {1, 2}) {
          INFO(dtype << ", stage " << zero_stage << ", compression " << FieldText(compression) << ", " << ranks
                     << " ranks");
          CHECK(
              Failures(RunRanks(ranks, absl::Seconds(60), [&](const World& world) {
                const GradientReducerOptions options{
                    .bucket_bytes = 1, .compression = compression, .zero_stage = zero_stage, .losses_are_final = true};
                return CompareAdded(world, options, dtype);
              })) == "");
        }
      }
    }
  }
}

TEST_CASE("a sum is not to be borrowed where losses may be scaled, nor where a user's hook would see it") {
  const auto alone = CreateAloneCommunicator();
  for (const bool is_final : {false, true}) {
    const TinyModel model(/*is_tied=*/false);
    const auto parameters = CollectParameters(model, {}).value();
    const Reducer reducer = GradientReducer::Create(*alone, parameters, {.losses_are_final = is_final}).value();
    CHECK_FALSE(reducer->BorrowSum(model.head_weight()).defined());  // outside of a step
    reducer->StartStep();
    const GradientReducer::NoSync no_sync(*reducer);
    model.Loss(0, reducer->Borrow(model.head_weight())).backward();
    CHECK(reducer->BorrowSum(model.head_weight()).defined() == is_final);
    const torch::Tensor memory = reducer->BorrowSum(model.head_weight());
    CHECK_FALSE(reducer->BorrowSum(model.head_weight()).defined());  // in use
    CHECK_FALSE(reducer->BorrowSum(torch::zeros({2})).defined());
  }
  const TinyModel model(/*is_tied=*/false);
  const auto parameters = CollectParameters(model, {}).value();
  const Reducer reducer = GradientReducer::Create(*alone, parameters, {.losses_are_final = true}).value();
  reducer->StartStep();
  const GradientReducer::NoSync no_sync(*reducer);
  model.Loss(0, {}).backward();
  model.head.register_hook([](const torch::Tensor&) {});
  CHECK_FALSE(reducer->BorrowSum(model.head_weight()).defined());
}

TEST_CASE("in Fit a distiller borrows the memory of its student's head's gradient in every micro-batch") {
  const testing::TempFolder output;
  CHECK(Failures(RunRanks(1, absl::Seconds(60), [&](const World& world) -> absl::Status {
          torch::set_num_threads(1);
          DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.backend = BackendPreference::kShm}));
          RunContext run(world, std::move(comm), torch::kCPU);
          DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, testing::TinyLlama());
          const auto student = std::make_shared<WatchedDecoder>(config);
          const auto data = MakeTokenDataset(
              {{{1, 2, 3, 4}, {0, 1, 1, 1}}, {{5, 6, 7, 8}, {0, 1, 1, 1}}, {{4, 3, 2, 1}, {0, 1, 1, 1}}});
          DISTILL_ASSIGN_OR_RETURN(auto batches, TokenBatches::Create(data, 0, 1, {.accumulation_steps = 3}));
          DISTILL_ASSIGN_OR_RETURN(const auto task,
                                   Distiller::Create(nullptr, student, std::move(batches), {.alpha = 0}));
          DISTILL_ASSIGN_OR_RETURN(const auto trainer,
                                   Trainer::Create(run, student, {.output_dir = output.path(), .max_steps = 2}));
          DISTILL_RETURN_IF_ERROR(trainer->Fit(*task).status());
          return Expect(student->places == 2 && student->sums == 4,
                        absl::StrCat(student->places, " places and ", student->sums, " sums in 2 steps of 3"));
        })) == "");
}

TEST_CASE("a gradient that is made in its bucket is the one that is moved there") {
  CHECK(Failures(RunRanks(1, absl::Seconds(60), [](const World& world) { return CompareBorrowed(world, 0); })) == "");
  for (const int zero_stage : {0, 1}) {
    INFO("stage " << zero_stage);
    CHECK(Failures(RunRanks(2, absl::Seconds(60),
                            [&](const World& world) { return CompareBorrowed(world, zero_stage); })) == "");
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
  loss().backward();
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
  const auto distiller = LogitDistillation::CreateLive(teacher, student, {.chunk_tokens = 1}).value();
  CheckGiven(*student, [&] { return distiller->Forward(batch, {}).Find("loss")->sum; });
  const auto masked = MaskedDistillation::Create(LiveTeacher(teacher), student, {.chunk_tokens = 1}).value();
  CheckGiven(*student, [&] { return masked->Forward(batch, {.factors = {5, 2, 1}}).total; });
}

// A user's, which knows nothing of sinks: states out of a table of words, which is the head as well.
struct OwnModel : LanguageModel {
  OwnModel() {
    torch::manual_seed(3);
    words = register_parameter("words", torch::randn({kVocabulary, kHidden}).to(torch::kBFloat16));
  }
  torch::Tensor Hidden(const TokenInput& input) override { return at::embedding(words, input.input_ids); }
  torch::Tensor head_weight() const override { return words; }
  torch::Tensor embedding_weight() const override { return words; }

  torch::Tensor words;
};

TEST_CASE("a model that knows nothing of gradient sinks has its gradients by autograd") {
  TokenBatch batch;
  batch.rows = 1;
  batch.length = 4;
  batch.input_ids = batch.labels = {1, 2, 3, 4};
  batch.document_starts = {{0, 4}};
  const auto model = std::make_shared<OwnModel>();
  const auto distiller = LogitDistillation::CreateLive(nullptr, model, {.alpha = 0}).value();
  distiller->Forward(batch, {}).Find("loss")->sum.backward();
  const torch::Tensor expected = model->words.grad().to(torch::kFloat32).flatten();
  model->words.mutable_grad() = torch::Tensor();

  const auto alone = CreateAloneCommunicator();
  const auto parameters = CollectParameters(*model, {}).value();
  CHECK(TiedTable(*model, parameters) == -1);
  const std::shared_ptr<GradientReducer> reducer = GradientReducer::Create(*alone, parameters, {}).value();
  GiveGradientsTo(reducer, *model);
  reducer->StartStep();
  distiller->Forward(batch, {}).Find("loss")->sum.backward();
  absl::Status mine;
  REQUIRE(reducer->Finish(mine).ok());
  CHECK(torch::equal(reducer->buckets().OwnGradient(0), expected));
}

TEST_CASE("a model that outlives its reducer has its gradients by autograd again") {
  DecoderConfig config = testing::TinyLlama().value();
  config.tie_word_embeddings = true;
  Decoder model(config);
  const auto alone = CreateAloneCommunicator();
  const auto parameters = CollectParameters(model, {}).value();
  std::shared_ptr<GradientReducer> reducer =
      GradientReducer::Create(*alone, parameters, {.rows_of = TiedTable(model, parameters)}).value();
  GiveGradientsTo(reducer, model);
  reducer->StartStep();
  CHECK(model.gradient_sink()->Borrow(model.head_weight()).defined());
  const torch::Tensor ids = torch::ones({1, 3}, torch::kInt64);
  const torch::Tensor early = model.Hidden({ids, {}}).sum();
  reducer = nullptr;
  CHECK_FALSE(model.gradient_sink()->Borrow(model.head_weight()).defined());
  model.Hidden({ids, {}}).sum().backward();
  CHECK(model.head_weight().grad().defined());
  const absl::Status late = CatchTorch([&] {
    early.backward();
    return absl::OkStatus();
  });
  CHECK(ExpectError(late, absl::StatusCode::kInternal, {"reducer was gone"}) == absl::OkStatus());
}

TEST_CASE("where gradients have no place of their own nothing is to be borrowed") {
  CHECK(Failures(RunRanks(2, absl::Seconds(60), [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.backend = BackendPreference::kShm}));
          const TinyModel model(/*is_tied=*/false);
          DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(model, {}));
          DISTILL_ASSIGN_OR_RETURN(const Reducer reducer,
                                   GradientReducer::Create(*comm, parameters, {.zero_stage = 2}));
          reducer->StartStep();
          const bool gives = reducer->Borrow(model.head_weight()).defined();
          absl::Status mine;
          DISTILL_RETURN_IF_ERROR(reducer->Finish(mine));
          return Expect(!gives, "stage 2 gives memory");
        })) == "");
}

TEST_CASE("a loss whose gradient was asked for too late, after the step's end, fails") {
  const auto alone = CreateAloneCommunicator();
  const TinyModel model(/*is_tied=*/false);
  const auto parameters = CollectParameters(model, {}).value();
  const Reducer reducer = GradientReducer::Create(*alone, parameters, {}).value();
  reducer->StartStep();
  const torch::Tensor loss = model.Loss(0, reducer->Borrow(model.head_weight()));
  absl::Status mine;
  REQUIRE(reducer->Finish(mine).ok());  // which fills the memory with zeros
  const absl::Status late = CatchTorch([&] {
    loss.backward();
    return absl::OkStatus();
  });
  CHECK(ExpectError(late, absl::StatusCode::kInternal, {"modified by an inplace operation"}) == absl::OkStatus());
}

TEST_CASE("in training a distiller borrows the memory of its student's head's gradient, once a step") {
  const testing::TempFolder output;
  CHECK(Failures(RunRanks(2, absl::Seconds(60), [&](const World& world) -> absl::Status {
          torch::set_num_threads(1);
          DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.backend = BackendPreference::kShm}));
          RunContext run(world, std::move(comm), torch::kCPU);
          DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, testing::TinyLlama());
          const auto student = std::make_shared<Decoder>(config);
          DISTILL_ASSIGN_OR_RETURN(const auto distiller, LogitDistillation::CreateLive(nullptr, student, {.alpha = 0}));
          const auto data = MakeTokenDataset({{{1, 2, 3, 4}, {0, 1, 1, 1}}, {{5, 6, 7, 8}, {0, 1, 1, 1}}});
          DISTILL_ASSIGN_OR_RETURN(auto batches, TokenBatches::Create(data, run.rank(), run.world_size(), {}));
          DISTILL_ASSIGN_OR_RETURN(const auto trainer,
                                   Trainer::Create(run, student, {.output_dir = output.path(), .max_steps = 3}));
          int64_t borrowed = 0, taken = 0;
          const auto loss = [&](const TokenBatch& batch) {
            const auto is_free = [&] { return student->gradient_sink()->Borrow(student->head_weight()).defined(); };
            if (is_free()) ++borrowed;  // and is given back here
            Losses sum = distiller->Forward(batch, {});
            if (!is_free()) ++taken;  // by the loss, until its backward pass
            return sum;
          };
          const auto task = MakeTask(std::move(batches), {.forward = loss, .reported = {"ce"}});
          DISTILL_RETURN_IF_ERROR(trainer->Fit(*task).status());
          return Expect(borrowed == 3 && taken == 3,
                        absl::StrCat("borrowed ", borrowed, " times, taken ", taken, " times, of 3"));
        })) == "");
}

TEST_CASE("the backward pass of an earlier step's loss fails once its gradient's memory is used anew") {
  const auto alone = CreateAloneCommunicator();
  const TinyModel model(/*is_tied=*/false);
  const auto parameters = CollectParameters(model, {}).value();
  const Reducer reducer = GradientReducer::Create(*alone, parameters, {}).value();
  CHECK_FALSE(reducer->Borrow(torch::zeros({2})).defined());
  reducer->StartStep();
  torch::Tensor memory = reducer->Borrow(model.head_weight());
  REQUIRE(memory.defined());
  const torch::Tensor early = model.Loss(0, std::exchange(memory, {}));
  absl::Status mine;
  REQUIRE(reducer->Finish(mine).ok());
  reducer->StartStep();
  CHECK_FALSE(reducer->Borrow(model.head_weight()).defined());  // `early` still has it
  const absl::Status late = CatchTorch([&] {
    early.backward();
    return absl::OkStatus();
  });
  CHECK(ExpectError(late, absl::StatusCode::kInternal, {"modified by an inplace operation"}) == absl::OkStatus());
  REQUIRE(reducer->Finish(mine).ok());
}

}  // namespace distill
