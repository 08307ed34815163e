// Models whose blocks are sharded over ranks against the same models whole: the same bits, and less memory.
#include <signal.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/encoder.h"
#include "libdistill/shard/sharded_models.h"
#include "libdistill/task/make_task.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/unbacked.h"
#include "libdistill/train/trainer.h"
#include "tests/shard/meet.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::AwaitAllRanks;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

constexpr auto kLimit = absl::Seconds(60);

absl::StatusOr<std::unique_ptr<RunContext>> Meet(const World& world,
                                                 BackendPreference backend = BackendPreference::kAuto) {
  return testing::Meet(world,
                       {.backend = backend, .timeout = absl::Seconds(20), .heartbeat_timeout = absl::Seconds(5)});
}

constexpr const char* kDecoder = R"({
  "model_type": "TYPE", "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "initializer_range": 0.2,
  "tie_word_embeddings": true, "torch_dtype": "float32"})";
constexpr const char* kBert = R"({
  "model_type": "bert", "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
  "num_attention_heads": 4, "max_position_embeddings": 32, "initializer_range": 0.2, "torch_dtype": "float32"})";

absl::StatusOr<std::shared_ptr<LanguageModel>> Make(const std::string& type, bool recomputes) {
  if (type == "bert") {
    DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ParseEncoderConfig(kBert, "tiny"));
    auto encoder = std::make_shared<Encoder>(config, /*seed=*/3);
    if (recomputes) encoder->EnableGradientCheckpointing();
    return encoder;
  }
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config,
                           ParseDecoderConfig(absl::StrReplaceAll(kDecoder, {{"TYPE", type}}), "tiny"));
  auto decoder = std::make_shared<Decoder>(config, /*seed=*/3);
  if (recomputes) decoder->EnableGradientCheckpointing();
  return decoder;
}

TokenInput Ids(int64_t first) {
  return {.input_ids = torch::arange(first, first + 14).remainder(61).view({2, 7}), .document_starts = {}};
}

struct Sharded {
  std::shared_ptr<ShardedBlocks> blocks;
  std::vector<TrainedParameter> weights;
};

// For training: with gradients.
absl::StatusOr<Sharded> Shard(Communicator& comm, LanguageModel& model, int64_t bucket_bytes) {
  Sharded sharded;
  std::vector<int64_t> block_of, elements;
  int64_t block = 0;
  for (const auto& of_block : model.BlockWeights()) {
    for (const torch::Tensor& weight : of_block) {
      sharded.weights.push_back({.name = absl::StrCat("weight ", elements.size()), .tensor = weight});
      block_of.push_back(block);
      elements.push_back(weight.numel());
    }
    ++block;
  }
  const ShardPlan plan(elements, PlanBuckets(elements, ReverseOrder(elements.size()), bucket_bytes, block_of),
                       comm.world_size());
  DISTILL_ASSIGN_OR_RETURN(sharded.blocks, ShardedBlocks::Create(comm, sharded.weights, block_of, block, plan, {}));
  model.SetWeightGate(sharded.blocks);
  return sharded;
}

absl::Status CompareGradients(LanguageModel& model, LanguageModel& whole) {
  const auto expected = whole.named_parameters();
  for (const auto& item : model.named_parameters()) {
    const torch::Tensor& gradient = expected[item.key()].grad();
    DISTILL_RETURN_IF_ERROR(Expect(item.value().grad().defined() == gradient.defined(), item.key()));
    if (!gradient.defined()) continue;
    DISTILL_RETURN_IF_ERROR(
        Expect(item.value().grad().equal(gradient), absl::StrCat("another gradient of ", item.key())));
  }
  return absl::OkStatus();
}

absl::Status RequireAway(const Sharded& sharded) {
  for (const TrainedParameter& weight : sharded.weights) {
    DISTILL_RETURN_IF_ERROR(Expect(!HasMemory(weight.tensor), "a block that does not run is here"));
    const auto reads = [&] { return Expect(weight.tensor.sum().item<double>() == 0, "not there"); };
    DISTILL_RETURN_IF_ERROR(
        ExpectError(CatchTorch(reads), absl::StatusCode::kFailedPrecondition, {weight.name + " is not in memory"}));
  }
  return absl::OkStatus();
}

struct Case {
  std::string type = "qwen2";
  bool recomputes = false;
  int64_t bucket_bytes = 3000;
  BackendPreference backend = BackendPreference::kAuto;
};

// Each rank on tokens of its own, with gradients and without; in the second round one rank has none.
absl::Status Compare(const World& world, const Case& c) {
  DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world, c.backend));
  DISTILL_ASSIGN_OR_RETURN(const auto whole, Make(c.type, c.recomputes));
  DISTILL_ASSIGN_OR_RETURN(const auto model, Make(c.type, c.recomputes));
  DISTILL_ASSIGN_OR_RETURN(const Sharded sharded, Shard(run->communicator(), *model, c.bucket_bytes));
  DISTILL_RETURN_IF_ERROR(RequireAway(sharded));
  for (int64_t round = 0; round < 3; ++round) {
    if (round == 1 && world.rank == world.world_size - 1) {
      sharded.blocks->SkipPass(/*with_gradients=*/true);
      sharded.blocks->SkipPass(/*with_gradients=*/false);
      continue;
    }
    const TokenInput ids = Ids(world.rank + 3 * round);
    const torch::Tensor expected = whole->Hidden(ids), actual = model->Hidden(ids);
    DISTILL_RETURN_IF_ERROR(Expect(actual.equal(expected), "other states"));
    expected.sin().sum().backward();
    actual.sin().sum().backward();
    DISTILL_RETURN_IF_ERROR(CompareGradients(*model, *whole));
    const torch::NoGradGuard no_grad;
    DISTILL_RETURN_IF_ERROR(Expect(model->Hidden(ids).equal(expected), "other states without gradients"));
    DISTILL_RETURN_IF_ERROR(RequireAway(sharded));
  }
  DISTILL_RETURN_IF_ERROR(sharded.blocks->GatherWhole(/*keep=*/true));
  model->SetWeightGate(nullptr);
  for (const auto& item : model->named_parameters()) {
    DISTILL_RETURN_IF_ERROR(Expect(item.value().equal(whole->named_parameters()[item.key()]), item.key()));
  }
  return absl::OkStatus();
}

TEST_CASE("a sharded model gives the bits of the whole one, forward and backward, also beside a rank without tokens") {
  for (const int ranks : {1, 2, 3}) {
    for (const std::string type : {"qwen2", "llama", "bert"}) {
      for (const bool recomputes : {false, true}) {
        INFO(type << " on " << ranks << ", recomputes " << recomputes);
        const Case c = {.type = type, .recomputes = recomputes, .bucket_bytes = ranks == 3 ? 1 : 3000};
        CHECK(Failures(RunRanks(ranks, kLimit, [&](const World& world) { return Compare(world, c); })) == "");
      }
    }
  }
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) {
          return Compare(world, {.backend = BackendPreference::kFabric});
        })) == "");
}

TEST_CASE("a frozen model that is sharded answers as before, in its own type") {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
    CHECK(Failures(RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
            DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
            DISTILL_ASSIGN_OR_RETURN(const auto model, Make("qwen2", false));
            model->to(dtype);
            const torch::NoGradGuard no_grad;
            const torch::Tensor expected = model->Hidden(Ids(1));
            DISTILL_RETURN_IF_ERROR(ShardFrozen(*run, *model));
            DISTILL_RETURN_IF_ERROR(Expect(run->frozen().size() == 1, "the run does not know of it"));
            DISTILL_RETURN_IF_ERROR(
                ExpectError(ShardFrozen(*run, *model), absl::StatusCode::kFailedPrecondition, {"sharded"}));
            for (int round = 0; round < 3; ++round) {
              DISTILL_RETURN_IF_ERROR(Expect(model->Hidden(Ids(1)).equal(expected), "other states"));
            }
            return absl::OkStatus();
          })) == "");
  }
}

TEST_CASE("ranks whose copies of a model differ do not share it out") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
          DISTILL_ASSIGN_OR_RETURN(const auto model, Make("qwen2", false));
          const torch::NoGradGuard no_grad;
          if (world.rank == 1) model->BlockWeights()[2][0].view({-1})[0].add_(1);
          return ExpectError(ShardFrozen(*run, *model), absl::StatusCode::kFailedPrecondition,
                             {"the weights of the blocks", "rank 1"});
        })) == "");
}

// Of this process alone, in bytes: what is resident and no file's, a page that n ranks map counting an n-th.
int64_t OwnBytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  int64_t bytes = 0, kib = 0;
  for (std::string name, line; file >> name; std::getline(file, line)) {
    if ((name == "Anonymous:" || name == "Pss_Shmem:") && file >> kib) bytes += kib * 1024;
  }
  return bytes;
}

TEST_CASE("a rank holds its share of a sharded model, and two blocks") {
  constexpr int kRanks = 4;
  const auto outcomes = RunRanks(kRanks, kLimit, [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
    DISTILL_ASSIGN_OR_RETURN(
        const DecoderConfig config,
        ParseDecoderConfig(R"({"model_type": "llama", "vocab_size": 61, "hidden_size": 256, "intermediate_size": 1024,
                               "num_hidden_layers": 24, "num_attention_heads": 4, "num_key_value_heads": 4,
                               "tie_word_embeddings": true, "torch_dtype": "float32"})",
                           "small"));
    Decoder model(config, /*seed=*/3);
    const auto weights = model.BlockWeights();
    int64_t block = 0;
    for (const torch::Tensor& weight : weights[0]) block += static_cast<int64_t>(weight.nbytes());
    const torch::NoGradGuard no_grad;
    (void)model.Hidden(Ids(2));
    DISTILL_RETURN_IF_ERROR(run->communicator().Barrier());
    const int64_t whole = OwnBytes(), told_whole = WeightBytes(model, torch::kCPU);
    DISTILL_RETURN_IF_ERROR(run->communicator().Barrier());
    DISTILL_RETURN_IF_ERROR(ShardFrozen(*run, model));
    (void)model.Hidden(Ids(2));
    DISTILL_RETURN_IF_ERROR(run->communicator().Barrier());
    const int64_t saved = whole - OwnBytes(), blocks = static_cast<int64_t>(weights.size());
    DISTILL_RETURN_IF_ERROR(run->communicator().Barrier());
    const int64_t promised = blocks * block - blocks * block / kRanks - 2 * block;
    const int64_t told = told_whole - WeightBytes(model, torch::kCPU);
    constexpr int64_t kPadding = 1 << 20;
    DISTILL_RETURN_IF_ERROR(Expect(std::abs(told - promised) < kPadding,
                                   absl::StrCat(told >> 10, " KiB told as saved, not ", promised >> 10)));
    constexpr int64_t kOther = 6 << 20;  // the second communicator's own memory, activations
    return Expect(saved >= promised - kOther,
                  absl::StrCat(saved >> 10, " KiB of ", (blocks * block) >> 10, " saved, not ", promised >> 10));
  });
  CHECK(Failures(outcomes) == "");
}

// A step of training beside a frozen model, of which one rank has no data.
absl::Status Step(const World& world, int64_t zero_stage,
                  const std::function<Losses(LanguageModel& frozen, LanguageModel& student, const TokenBatch&)>& loss,
                  const std::vector<std::string>& error) {
  DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
  DISTILL_ASSIGN_OR_RETURN(const auto frozen, Make("qwen2", false));
  DISTILL_ASSIGN_OR_RETURN(const auto student, Make("llama", false));
  DISTILL_RETURN_IF_ERROR(ShardFrozen(*run, *frozen));
  const auto data = MakeTokenDataset({{{1, 2, 3, 4}, {0, 1, 1, 1}}, {{5, 6, 7, 8}, {0, 1, 1, 1}}});
  DISTILL_ASSIGN_OR_RETURN(auto batches, TokenBatches::Create(data, run->rank(), run->world_size(), {}));
  DISTILL_ASSIGN_OR_RETURN(
      auto trainer, Trainer::Create(*run, student, {.max_steps = 2, .logging_steps = 0, .zero_stage = zero_stage}));
  const auto of_batch = [&](const TokenBatch& batch) { return loss(*frozen, *student, batch); };
  const auto task = MakeTask(std::move(batches), {.forward = of_batch});
  return ExpectError(trainer->Fit(*task).status(), absl::StatusCode::kFailedPrecondition, error);
}

TEST_CASE("a loss that does not run what is sharded once a micro-batch is refused on all ranks, with what to do") {
  struct Case {
    int64_t zero_stage, frozen_passes;
    bool with_gradients, trains;
  };
  const auto refuses = [](const Case& c, const std::vector<std::string>& error) {
    const auto loss = [&](LanguageModel& frozen, LanguageModel& student, const TokenBatch& batch) {
      for (int64_t i = 0; i < c.frozen_passes; ++i) {
        const torch::AutoGradMode mode(c.with_gradients);
        (void)frozen.Hidden(Ids(2));
      }
      const torch::Tensor of = c.trains ? student.Hidden(Ids(2)) : student.head_weight();
      return Losses{{"loss", of.sum(), batch.num_loss_tokens()}};
    };
    const auto outcomes =
        RunRanks(3, kLimit, [&](const World& world) { return Step(world, c.zero_stage, loss, error); });
    CHECK(Failures(outcomes) == "");
  };
  refuses({.zero_stage = 0, .frozen_passes = 0, .with_gradients = false, .trains = true},
          {"not run model 1 of the 1 that ShardFrozen", "must not live"});
  refuses({.zero_stage = 0, .frozen_passes = 1, .with_gradients = true, .trains = true}, {"torch::NoGradGuard"});
  refuses({.zero_stage = 2, .frozen_passes = 2, .with_gradients = false, .trains = true},
          {"a second time for a micro-batch"});
  refuses({.zero_stage = 3, .frozen_passes = 1, .with_gradients = false, .trains = false},
          {"not run the module", "zero_stage 2"});
}

TEST_CASE("a weight that is read while its block is away is named, with where to read it") {
  for (const bool of_frozen : {false, true}) {
    const auto loss = [&](LanguageModel& frozen, LanguageModel& student, const TokenBatch& batch) {
      const torch::Tensor weight = (of_frozen ? frozen : student).BlockWeights()[1][0];
      return Losses{{"loss", weight.square().sum(), batch.num_loss_tokens()}};
    };
    const std::vector<std::string> error = {"model.layers.1.", " is not in memory", "Task::SaveModel",
                                            "before ShardFrozen"};
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) { return Step(world, 3, loss, error); })) == "");
  }
}

TEST_CASE("passes out of turn are refused with what to do") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
          DISTILL_ASSIGN_OR_RETURN(const auto model, Make("qwen2", false));
          DISTILL_ASSIGN_OR_RETURN(const Sharded sharded, Shard(run->communicator(), *model, 3000));
          const auto pass = [&] {
            return CatchTorch([&] { return Expect(model->Hidden(Ids(2)).requires_grad(), "no gradients"); });
          };
          DISTILL_RETURN_IF_ERROR(pass());
          return ExpectError(pass(), absl::StatusCode::kFailedPrecondition, {"backward pass", "NoGradGuard"});
        })) == "");
}

TEST_CASE("a rank that is lost between passes is named to those that wait for its share") {
  const auto outcomes = RunRanks(3, kLimit, [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
    DISTILL_ASSIGN_OR_RETURN(const auto model, Make("qwen2", false));
    DISTILL_RETURN_IF_ERROR(ShardFrozen(*run, *model));
    const torch::NoGradGuard no_grad;
    (void)model->Hidden(Ids(2));
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
    if (world.rank == 1) raise(SIGKILL);
    const absl::Status lost = CatchTorch([&] { return Expect(model->Hidden(Ids(2)).defined(), "no states"); });
    return ExpectError(lost, absl::StatusCode::kUnavailable, {"rank 1"});
  });
  CHECK(outcomes[1].signal == SIGKILL);
  for (const int survivor : {0, 2}) {
    INFO(outcomes[survivor].status);
    CHECK(outcomes[survivor].status.ok());
  }
}

}  // namespace
}  // namespace distill
