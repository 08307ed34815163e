// The GradientReducer against plain sums after the backward pass, and what becomes of ranks that fail in one.
#include <signal.h>

#include <thread>

#include <torch/csrc/autograd/custom_function.h>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/trainer.h"
#include "tests/gradients/reducer_nets.h"
#include "tests/support/catch.h"
#include "tests/support/counted_task.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::AllNetKinds;
using testing::CheckNorm;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::HasTokens;
using testing::Meet;
using testing::Net;
using testing::NetKind;
using testing::ParametersOf;
using testing::PlainSums;
using testing::RunRanks;

constexpr auto kLimit = absl::Seconds(120);

void Backward(GradientReducer& reducer, Net& net, int64_t rank, int64_t step, int64_t micro_batches) {
  for (int64_t m = 0; m + 1 < micro_batches; ++m) {
    const GradientReducer::NoSync no_sync(reducer);
    net.Loss(rank, step, m).backward();
  }
  net.Loss(rank, step, micro_batches - 1).backward();
}

// One step's sums, in stage 2 of each micro-batch by itself.
absl::Status Sum(Communicator& comm, GradientReducer& reducer, Net& net, int64_t step, int64_t micro_batches) {
  const bool sums_each = reducer.options().zero_stage == 2;
  absl::Status mine;
  for (int64_t m = 0; m < (sums_each ? micro_batches : 1); ++m) {
    reducer.StartStep(/*adds=*/m > 0);
    if (HasTokens(comm, step) && sums_each) net.Loss(comm.rank(), step, m).backward();
    if (HasTokens(comm, step) && !sums_each) Backward(reducer, net, comm.rank(), step, micro_batches);
    DISTILL_RETURN_IF_ERROR(reducer.Finish(mine));
  }
  return mine;
}

struct ReducerCase {
  int64_t micro_batches, bucket_bytes;
  int zero_stage;
};

absl::Status Compare(Communicator& comm, const NetKind& kind, const ReducerCase& c) {
  Net net(kind);
  const auto parameters = ParametersOf(net);
  DISTILL_ASSIGN_OR_RETURN(
      const auto reducer,
      GradientReducer::Create(comm, parameters, {.bucket_bytes = c.bucket_bytes, .zero_stage = c.zero_stage}));
  const GradientBuckets& buckets = reducer->buckets();
  for (int64_t step = 0; step < 6; ++step) {
    DISTILL_RETURN_IF_ERROR(Sum(comm, *reducer, net, step, c.micro_batches));
    DISTILL_ASSIGN_OR_RETURN(const auto expected, PlainSums(comm, kind, step, c.micro_batches));
    for (size_t i = 0; i < parameters.size(); ++i) {
      const int shard = buckets.plan().shards() == 1 ? 0 : comm.rank();
      const ShardPlan::Part part = buckets.plan().OfParameter(i, shard);
      if (torch::equal(buckets.OwnGradient(i), expected[i].view({-1}).narrow(0, part.begin, part.count))) continue;
      return absl::InternalError(absl::StrCat(kind.name, " over ", comm.backend(), ", stage ", c.zero_stage, ", ",
                                              c.micro_batches, " micro-batches, buckets of ", c.bucket_bytes, ", step ",
                                              step, ": ", parameters[i].name, " has other sums"));
    }
    DISTILL_RETURN_IF_ERROR(CheckNorm(buckets, expected, absl::StrCat(kind.name, ", stage ", c.zero_stage)));
  }
  return absl::OkStatus();
}

absl::Status CompareAll(const World& world, BackendPreference backend) {
  DISTILL_ASSIGN_OR_RETURN(const auto comm, Meet(world, backend));
  return CatchTorch([&]() -> absl::Status {
    for (const NetKind& kind : AllNetKinds()) {
      for (const int64_t micro_batches : {1, 2, 3}) {
        for (const int64_t bucket_bytes : {1, 150, 1 << 20}) {
          DISTILL_RETURN_IF_ERROR(Compare(*comm, kind, {micro_batches, bucket_bytes, /*zero_stage=*/0}));
        }
      }
    }
    return absl::OkStatus();
  });
}

absl::Status CompareSharded(const World& world, BackendPreference backend) {
  DISTILL_ASSIGN_OR_RETURN(const auto comm, Meet(world, backend));
  return CatchTorch([&]() -> absl::Status {
    for (const NetKind& kind : AllNetKinds()) {
      for (const int zero_stage : {1, 2}) {
        DISTILL_RETURN_IF_ERROR(Compare(*comm, kind, {/*micro_batches=*/2, /*bucket_bytes=*/150, zero_stage}));
      }
      DISTILL_RETURN_IF_ERROR(Compare(*comm, kind, {/*micro_batches=*/1, /*bucket_bytes=*/1, /*zero_stage=*/2}));
    }
    // Embeddings that are much larger than the other parameters, and ones of which blocks travel (gradient_blocks.h).
    for (const int64_t words : {int64_t{1024}, kEmbeddingRows + 3}) {
      for (const bool bf16 : {false, true}) {
        for (const int zero_stage : {1, 2}) {
          const NetKind kind = {.name = "large embedding", .sparse = words == 1024, .bf16 = bf16, .words = words};
          DISTILL_RETURN_IF_ERROR(Compare(*comm, kind, {/*micro_batches=*/2, /*bucket_bytes=*/1, zero_stage}));
        }
      }
    }
    return absl::OkStatus();
  });
}

// The first matrix fails in the backward pass of the third step on rank 1; by then the buckets of the others are on
// their way.
struct Fault {
  std::function<void()> happens;
  int64_t passes = 0;
};

struct FaultyBackward : torch::autograd::Function<FaultyBackward> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x, int64_t fault) {
    context->saved_data["fault"] = fault;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    Fault& fault = *reinterpret_cast<Fault*>(context->saved_data["fault"].toInt());
    if (++fault.passes == 3) fault.happens();
    return {grads[0], torch::Tensor()};
  }
};

struct Chain : torch::nn::Module {
  Chain() {
    for (int64_t l = 0; l < 8; ++l) {
      layers.push_back(register_parameter(absl::StrCat("layer", l), torch::eye(16) * 0.5));
    }
  }
  std::vector<torch::Tensor> layers;
};

class FaultySteps : public testing::CountedTask {
 public:
  FaultySteps(Chain& chain, std::function<void()> happens) : chain_(chain), fault_{std::move(happens)} {}
  int64_t steps_per_epoch() const override { return 10; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    return std::vector<MicroStep>{
        {.counts = {1}, .num_tokens = 1, .num_samples = 1, .forward = [this](const PassScale&) {
           torch::Tensor x = torch::ones({2, 16}).matmul(chain_.layers[0]);
           if (fault_.happens) x = FaultyBackward::apply(x, reinterpret_cast<int64_t>(&fault_));
           for (size_t l = 1; l < chain_.layers.size(); ++l) x = x.matmul(chain_.layers[l]);
           return Losses{{"loss", x.sum(), 1}};
         }}};
  }

 private:
  Chain& chain_;
  Fault fault_;
};

TrainerOptions Options() {
  TrainerOptions options = {
      .max_steps = 6, .learning_rate = 0.05, .logging_steps = 0, .save_steps = 0, .bucket_bytes = 1};
  options.lr_scheduler_type = SchedulerType::kConstant;
  return options;
}

// What the Trainer returns where that happens on rank 1.
absl::Status TrainWithFault(const World& world, BackendPreference backend, Chain& chain,
                            const std::function<void()>& happens) {
  DISTILL_ASSIGN_OR_RETURN(auto comm, Meet(world, backend));
  RunContext run(world, std::move(comm), torch::kCPU);
  const std::shared_ptr<Chain> module(&chain, [](Chain*) {});
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, module, Options()));
  FaultySteps steps(chain, world.rank == 1 ? happens : nullptr);
  return trainer->Fit(steps).status();
}

}  // namespace

TEST_CASE("gradients summed during the backward pass are those of a plain sum after it") {
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    for (const int ranks : {1, 2, 3, 4}) {
      INFO(ranks << " ranks over " << FieldText(backend));
      CHECK(Failures(RunRanks(ranks, kLimit, [&](const World& world) { return CompareAll(world, backend); })) == "");
    }
  }
}

TEST_CASE("each rank has the plain sums of its slices") {
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    for (const int ranks : {2, 3}) {
      INFO(ranks << " ranks over " << FieldText(backend));
      CHECK(Failures(RunRanks(ranks, kLimit, [&](const World& world) { return CompareSharded(world, backend); })) ==
            "");
    }
  }
}

TEST_CASE("buckets leave in rank 0's order of gradients from the second step on, while the backward pass runs") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto comm, Meet(world, BackendPreference::kShm));
          Net net({.name = "plain"});
          const auto parameters = ParametersOf(net);
          DISTILL_ASSIGN_OR_RETURN(const auto reducer, GradientReducer::Create(*comm, parameters, {.bucket_bytes = 1}));
          for (int64_t step = 0; step < 3; ++step) {
            reducer->StartStep();
            net.Loss(world.rank, step, 0).backward();
            absl::Status mine;
            DISTILL_RETURN_IF_ERROR(reducer->Finish(mine));
            const int64_t early = reducer->stats().early_buckets;
            DISTILL_RETURN_IF_ERROR(Expect(early == (step == 0 ? 0 : 8), absl::StrCat(early, " buckets left early")));
          }
          std::string order;
          for (size_t b = 0; b < reducer->buckets().num_buckets(); ++b) {
            for (const size_t i : reducer->buckets().bucket(b).parameters)
              absl::StrAppend(&order, parameters[i].name, " ");
          }
          DISTILL_RETURN_IF_ERROR(Expect(reducer->order().size() == 8, "no order to save"));
          return Expect(order == "unused bias head layer3 layer2 layer1 layer0 embedding ", order);
        })) == "");
}

TEST_CASE("a resumed run has the plan of the one that it resumes from its first step") {
  const auto alone = CreateAloneCommunicator();
  Net net({.name = "plain"});
  const auto parameters = ParametersOf(net);
  const std::vector<int64_t> order = {3, 1, 2, 0, 7, 6, 5, 4};
  const auto reducer = GradientReducer::Create(*alone, parameters, {.bucket_bytes = 1, .order = order});
  REQUIRE(reducer.ok());
  for (int64_t step = 0; step < 2; ++step) {
    (*reducer)->StartStep();
    for (size_t b = 0; b < order.size(); ++b) {
      CHECK((*reducer)->buckets().bucket(b).parameters == std::vector<size_t>{static_cast<size_t>(order[b])});
    }
    net.Loss(0, step, 0).backward();
    absl::Status mine;
    CHECK((*reducer)->Finish(mine).ok());
    CHECK((*reducer)->order() == order);
  }
  const auto other = GradientReducer::Create(*alone, parameters, {.order = {0, 1}});
  CHECK(other.status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("hooks may run on another thread than the one that finishes the step") {
  const auto alone = CreateAloneCommunicator();
  Net net({.name = "plain"});
  const auto reducer = GradientReducer::Create(*alone, ParametersOf(net), {.bucket_bytes = 1}).value();
  for (int64_t step = 0; step < 3; ++step) {
    reducer->StartStep();
    std::thread([&] { net.Loss(0, step, 0).backward(); }).join();
    absl::Status mine;
    REQUIRE(reducer->Finish(mine).ok());
    const auto expected = PlainSums(*alone, net.kind, step, 1).value();
    for (size_t i = 0; i < expected.size(); ++i) CHECK(torch::equal(reducer->buckets().gradient(i), expected[i]));
  }
}

TEST_CASE("several backward passes of a step are taken for what they were in the first one") {
  const auto alone = CreateAloneCommunicator();
  Net net({.name = "plain"});
  const auto reducer = GradientReducer::Create(*alone, ParametersOf(net), {.bucket_bytes = 1}).value();
  const auto run = [&](int64_t step, int64_t passes) {
    reducer->StartStep();
    absl::Status mine = CatchTorch([&] {
      for (int64_t pass = 0; pass < passes; ++pass) net.Loss(0, step, pass).backward();
      return absl::OkStatus();
    });
    REQUIRE(reducer->Finish(mine).ok());
    return mine;
  };
  for (int64_t step = 0; step < 3; ++step) {
    REQUIRE(run(step, 2).ok());
    CHECK(reducer->stats().early_buckets == (step == 0 ? 0 : 8));
    const auto expected = PlainSums(*alone, net.kind, step, 2).value();
    for (size_t i = 0; i < expected.size(); ++i) CHECK(torch::equal(reducer->buckets().gradient(i), expected[i]));
  }
  CHECK(ExpectError(run(3, 3), absl::StatusCode::kInternal, {"parameter unused", "on its way", "in every step"}) ==
        absl::OkStatus());
  CHECK(run(4, 2).ok());
}

TEST_CASE("ranks whose parameters differ get an error with both ranks and the parameter") {
  CHECK(Failures(RunRanks(3, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto comm, Meet(world, BackendPreference::kShm));
          torch::nn::Module module;
          module.register_parameter("first", torch::zeros({2, 3}));
          module.register_parameter("second", torch::zeros({world.rank == 2 ? 5 : 4}));
          const auto parameters = CollectParameters(module, {}).value();
          const absl::Status status = GradientReducer::Create(*comm, parameters, {}).status();
          return ExpectError(status, absl::StatusCode::kFailedPrecondition,
                             {"parameter second", "rank 0 on", "[4]", "rank 2 on", "[5]"});
        })) == "");
}

TEST_CASE("compressed gradients are within their bound, and the same on every rank") {
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    const auto outcomes = RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const auto comm, Meet(world, backend));
      torch::nn::Module module;
      const torch::Tensor weight = module.register_parameter("weight", torch::ones({10007}));
      const auto parameters = CollectParameters(module, {}).value();
      DISTILL_ASSIGN_OR_RETURN(const auto reducer,
                               GradientReducer::Create(*comm, parameters, {.compression = GradientCompression::kBf16}));
      for (int64_t step = 0; step < 3; ++step) {
        torch::manual_seed(static_cast<uint64_t>(10 * step + world.rank));
        const torch::Tensor mine = torch::randn({10007});
        reducer->StartStep();
        (weight * mine).sum().backward();
        absl::Status failed;
        DISTILL_RETURN_IF_ERROR(reducer->Finish(failed));
        const torch::Tensor sum = mine.to(torch::kFloat64), sizes = sum.abs();
        DISTILL_RETURN_IF_ERROR(AllReduceSum(*comm, sum));
        DISTILL_RETURN_IF_ERROR(AllReduceSum(*comm, sizes));
        const torch::Tensor found = reducer->buckets().gradient(0);
        const torch::Tensor error = (found - sum).abs();
        const double bound = std::pow(1 + std::pow(2.0, -8), 3) - 1;
        DISTILL_RETURN_IF_ERROR(Expect(error.le(sizes * bound).all().item<bool>(), "further off than the bound"));
        DISTILL_RETURN_IF_ERROR(Expect(error.max().item<double>() > 1e-4, "nothing was compressed"));
        std::vector<float> everybodys(3 * 10007);
        DISTILL_RETURN_IF_ERROR(comm->AllGather(found.data_ptr(), everybodys.data(), 10007, DType::kFloat32));
        for (size_t i = 0; i < 10007; ++i) {
          const bool same = everybodys[i] == everybodys[10007 + i] && everybodys[i] == everybodys[20014 + i];
          DISTILL_RETURN_IF_ERROR(Expect(same, "ranks differ"));
        }
      }
      return absl::OkStatus();
    });
    CHECK(Failures(outcomes) == "");
  }
}

TEST_CASE("a rank that throws in its backward pass ends all with its error, and none has updated") {
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    const auto outcomes = RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
      Chain chain, same;
      const auto fail = [] { throw std::runtime_error("the gradient went wrong"); };
      const absl::Status status = TrainWithFault(world, backend, chain, fail);
      std::vector<std::string> parts = {"the gradient went wrong"};
      if (world.rank != 1) parts.push_back(absl::StrCat("rank 1 on ", world.host));
      DISTILL_RETURN_IF_ERROR(ExpectError(status, absl::StatusCode::kInternal, parts));
      // What two steps make of it, those before the fault.
      RunContext alone(World{}, CreateAloneCommunicator(), torch::kCPU);
      const std::shared_ptr<Chain> module(&same, [](Chain*) {});
      DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(alone, module, Options()));
      FaultySteps steps(same, fail);
      DISTILL_RETURN_IF_ERROR(Expect(!trainer->Fit(steps).ok(), "no fault"));
      return Expect(torch::allclose(chain.layers[3], same.layers[3]), "a rank has updated");
    });
    CHECK(Failures(outcomes) == "");
  }
}

TEST_CASE("a rank that is killed in its backward pass is named by the others, with operation, number and step") {
  for (const BackendPreference backend : {BackendPreference::kShm, BackendPreference::kFabric}) {
    const auto outcomes = RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
      Chain chain;
      const absl::Status status = TrainWithFault(world, backend, chain, [] { raise(SIGKILL); });
      return ExpectError(status, absl::StatusCode::kUnavailable,
                         {absl::StrCat("rank 1 on ", world.host), "all-reduce number ", "(step 3)"});
    });
    for (const auto& outcome : outcomes) {
      INFO(FieldText(backend) << ", rank " << outcome.rank << ": " << outcome.status << " after " << outcome.took);
      CHECK(outcome.ended);
      CHECK(outcome.signal == (outcome.rank == 1 ? SIGKILL : 0));
      CHECK((outcome.rank == 1 || outcome.status.ok()));
      CHECK(outcome.took < absl::Seconds(30));
    }
  }
}

}  // namespace distill
