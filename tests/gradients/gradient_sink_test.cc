// Models that know where their head's gradient may go: what distillers and trainers make of it.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/model_gradients.h"
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
    words = register_parameter("words", torch::randn({40, 8}).to(torch::kBFloat16));
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

}  // namespace
}  // namespace distill
