// The gradient of a bfloat16 or float16 head that comes to its bucket in float32, as the loss has it.
#include <functional>
#include <memory>
#include <optional>

#include "libdistill/comm/create.h"
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

// Three micro-batches, of the first of which the gradient is made in the bucket.
absl::Status CompareWide(const World& world, torch::Dtype dtype, bool is_tied) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.backend = BackendPreference::kShm}));
  const TinyHeadModel model(is_tied, dtype);
  DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(model, {}));
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<GradientReducer> reducer,
                           GradientReducer::Create(*comm, parameters, {.bucket_bytes = 1}));
  const torch::Tensor& weight = model.head_weight();
  DISTILL_RETURN_IF_ERROR(Expect(!reducer->TakesWide(weight), "takes outside of a step"));
  for (int64_t step = 0; step < 3; ++step) {
    torch::Tensor expected = torch::zeros_like(weight, torch::kFloat32);  // what the losses themselves know, in float32
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

}  // namespace

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
    const TinyHeadModel model(/*is_tied=*/false, dtype);
    const auto parameters = CollectParameters(model, {}).value();
    const std::unique_ptr<GradientReducer> reducer = GradientReducer::Create(*alone, parameters, {}).value();
    reducer->StartStep();
    CHECK(reducer->TakesWide(model.head_weight()) == (dtype == torch::kBFloat16));
    model.head.register_hook([](const torch::Tensor&) {});
    CHECK_FALSE(reducer->TakesWide(model.head_weight()));
    CHECK_FALSE(reducer->TakesWide(torch::zeros({2}, dtype)));
    absl::Status mine;
    REQUIRE(reducer->Finish(mine).ok());
    const absl::Status late = CatchTorch([&] {
      reducer->AddWide(model.head_weight(), torch::zeros_like(model.head_weight(), torch::kFloat32));
      return absl::OkStatus();
    });
    CHECK(ExpectError(late, absl::StatusCode::kInternal, {"before Finish"}) == absl::OkStatus());
  }
}

}  // namespace distill
