// A head's gradient that the loss makes where its bucket is.
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/tensor/catch_torch.h"
#include "tests/gradients/tiny_head_model.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;
using testing::TinyHeadModel;

using Reducer = std::unique_ptr<GradientReducer>;

// Each parameter's gradient in float32, in the buckets; with and without borrowed memory.
absl::StatusOr<std::vector<torch::Tensor>> Sums(GradientReducer& reducer, const TinyHeadModel& model, int64_t step,
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
    const TinyHeadModel model(is_tied);
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

// The head's gradient of three micro-batches, as `reducer` has it.
absl::StatusOr<torch::Tensor> HeadSum(GradientReducer& reducer, const TinyHeadModel& model, int64_t step, bool adds) {
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
    const TinyHeadModel model(is_tied, dtype);
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
    const TinyHeadModel model(/*is_tied=*/false);
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
  const TinyHeadModel model(/*is_tied=*/false);
  const auto parameters = CollectParameters(model, {}).value();
  const Reducer reducer = GradientReducer::Create(*alone, parameters, {.losses_are_final = true}).value();
  reducer->StartStep();
  const GradientReducer::NoSync no_sync(*reducer);
  model.Loss(0, {}).backward();
  model.head.register_hook([](const torch::Tensor&) {});
  CHECK_FALSE(reducer->BorrowSum(model.head_weight()).defined());
}

TEST_CASE("a gradient that is made in its bucket is the one that is moved there") {
  CHECK(Failures(RunRanks(1, absl::Seconds(60), [](const World& world) { return CompareBorrowed(world, 0); })) == "");
  for (const int zero_stage : {0, 1}) {
    INFO("stage " << zero_stage);
    CHECK(Failures(RunRanks(2, absl::Seconds(60),
                            [&](const World& world) { return CompareBorrowed(world, zero_stage); })) == "");
  }
}

TEST_CASE("where gradients have no place of their own nothing is to be borrowed") {
  CHECK(Failures(RunRanks(2, absl::Seconds(60), [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.backend = BackendPreference::kShm}));
          const TinyHeadModel model(/*is_tied=*/false);
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
  const TinyHeadModel model(/*is_tied=*/false);
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

TEST_CASE("the backward pass of an earlier step's loss fails once its gradient's memory is used anew") {
  const auto alone = CreateAloneCommunicator();
  const TinyHeadModel model(/*is_tied=*/false);
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
