// What a rank has in memory while a model that is sharded is loaded, saved and resumed: never all of it.
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/encoder.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/shard/sharded_models.h"
#include "libdistill/task/logit_distillation.h"
#include "libdistill/task/make_task.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/peak_memory.h"
#include "libdistill/train/trainer.h"
#include "tests/shard/meet.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

constexpr auto kLimit = absl::Seconds(120);
constexpr int kRanks = 4;
constexpr int64_t kBlocks = 24;
constexpr int64_t kOther = 10 << 20;  // communicators' own memory, activations, holes of the heap
constexpr uint64_t kSeed = 3;

// The head comes after the blocks in the order in which weights are drawn. 2.25 MiB a block where hidden_size is 192.
std::string ConfigOf(int64_t hidden) {
  return absl::StrCat(R"({"model_type": "llama", "vocab_size": 300, "hidden_size": )", hidden,
                      R"(, "intermediate_size": )", 4 * hidden, R"(, "num_hidden_layers": )", kBlocks,
                      R"(, "num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": false,
                          "torch_dtype": "float32"})");
}

std::string EncoderConfigOf(const std::string& family) {
  return absl::StrCat(R"({"model_type": )", family, R"(, "vocab_size": 61, "hidden_size": 24, "dim": 24,
      "intermediate_size": 40, "hidden_dim": 40, "num_hidden_layers": 3, "n_layers": 3, "num_attention_heads": 4,
      "n_heads": 4, "max_position_embeddings": 32, "initializer_range": 0.2, "torch_dtype": "float32"})");
}

struct Bytes {
  int64_t block = 0, rest = 0;
  int64_t share() const { return kBlocks * block / kRanks; }
};

Bytes BytesOf(const Decoder& model) {
  Bytes bytes;
  const auto blocks = model.BlockWeights();
  for (const torch::Tensor& weight : blocks[0]) bytes.block += static_cast<int64_t>(weight.nbytes());
  bytes.rest = -kBlocks * bytes.block;
  for (const torch::Tensor& weight : model.parameters()) bytes.rest += static_cast<int64_t>(weight.nbytes());
  return bytes;
}

absl::StatusOr<std::unique_ptr<RunContext>> Meet(const World& world) {
  return testing::Meet(world, {.timeout = absl::Seconds(60), .heartbeat_timeout = absl::Seconds(10)});
}

// A folder with the config and, if asked for, weights out of kSeed, made by a process of its own.
void MakeFolder(const testing::TempFolder& folder, int64_t hidden, bool has_weights) {
  std::ofstream(folder.path() + "/config.json") << ConfigOf(hidden);
  if (!has_weights) return;
  CHECK(Failures(RunRanks(1, kLimit, [&](const World&) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto model, CreateDecoder(folder.path(), kSeed));
          return model->Save(folder.path(), "", torch::kFloat32);
        })) == "");
}

absl::StatusOr<std::shared_ptr<Decoder>> Load(const testing::TempFolder& folder, bool blocks_later) {
  const LoadOptions options = {.blocks_later = blocks_later};
  return HasWeights(folder.path()).value() ? LoadDecoder(folder.path(), options)
                                           : CreateDecoder(folder.path(), kSeed, options);
}

TokenInput Ids() { return {.input_ids = torch::arange(28).view({2, 14}), .document_starts = {}}; }

// What `body` has taken at most, in this process; all ranks at the same time.
template <typename Body>
absl::StatusOr<int64_t> PeakOf(RunContext& run, Body body) {
  malloc_trim(0);
  DISTILL_RETURN_IF_ERROR(run.communicator().Barrier());
  ResetPeakMemory(torch::kCPU);
  const int64_t before = PeakMemoryBytes(torch::kCPU);
  DISTILL_RETURN_IF_ERROR(run.communicator().Barrier());
  DISTILL_RETURN_IF_ERROR(body());
  const int64_t peak = PeakMemoryBytes(torch::kCPU) - before;
  DISTILL_RETURN_IF_ERROR(run.communicator().Barrier());
  return peak;
}

absl::StatusOr<std::shared_ptr<Decoder>> LoadShared(RunContext& run, const testing::TempFolder& folder) {
  DISTILL_ASSIGN_OR_RETURN(auto model, Load(folder, /*blocks_later=*/true));
  const auto too_early = [&] { return Expect(!model->Hidden(Ids()).defined(), "runs"); };
  DISTILL_RETURN_IF_ERROR(
      ExpectError(CatchTorch(too_early), absl::StatusCode::kFailedPrecondition, {"not loaded yet"}));
  DISTILL_RETURN_IF_ERROR(ShardFrozen(run, *model));
  return model;
}

TEST_CASE("a model that is sharded as it is loaded is never whole on a rank, out of files and out of a seed") {
  for (const bool has_weights : {true, false}) {
    INFO("weights " << has_weights);
    const testing::TempFolder folder, small;
    MakeFolder(folder, /*hidden=*/192, has_weights);
    MakeFolder(small, /*hidden=*/16, has_weights);
    CHECK(Failures(RunRanks(kRanks, kLimit, [&](const World& world) -> absl::Status {
            DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
            const torch::NoGradGuard no_grad;
            std::shared_ptr<Decoder> model;
            // Once before, of a small one: pages of code, which come in when it first runs, do not count.
            DISTILL_RETURN_IF_ERROR(LoadShared(*run, small).status());
            DISTILL_ASSIGN_OR_RETURN(const int64_t peak, PeakOf(*run, [&]() -> absl::Status {
                                       DISTILL_ASSIGN_OR_RETURN(model, LoadShared(*run, folder));
                                       return absl::OkStatus();
                                     }));
            const Bytes bytes = BytesOf(*model);
            const int64_t promised = bytes.share() + 2 * bytes.block + bytes.rest + kOther;
            DISTILL_RETURN_IF_ERROR(
                Expect(peak < promised, absl::StrCat(peak >> 10, " KiB, not below ", promised >> 10)));
            const torch::Tensor hidden = model->Hidden(Ids());
            DISTILL_ASSIGN_OR_RETURN(const auto whole, Load(folder, /*blocks_later=*/false));
            DISTILL_RETURN_IF_ERROR(Expect(model->head_weight().equal(whole->head_weight()), "another head"));
            return Expect(hidden.equal(whole->Hidden(Ids())), "other states");
          })) == "");
  }
}

TEST_CASE("blocks that were to come later come at once where nobody shares them out, in the type that was asked for") {
  for (const bool has_weights : {true, false}) {
    const testing::TempFolder folder;
    MakeFolder(folder, /*hidden=*/32, has_weights);
    CHECK(Failures(RunRanks(1, kLimit, [&](const World& world) -> absl::Status {
            DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
            DISTILL_ASSIGN_OR_RETURN(const auto whole, Load(folder, /*blocks_later=*/false));
            const LoadOptions narrow = {.dtype = torch::kBFloat16, .blocks_later = true};
            DISTILL_ASSIGN_OR_RETURN(const auto later, has_weights ? LoadDecoder(folder.path(), narrow)
                                                                   : CreateDecoder(folder.path(), kSeed, narrow));
            DISTILL_RETURN_IF_ERROR(Trainer::Create(*run, later, {}).status());
            const auto expected = whole->named_parameters();
            for (const auto& item : later->named_parameters()) {
              const torch::Tensor& value = item.value();
              DISTILL_RETURN_IF_ERROR(Expect(value.equal(expected[item.key()].to(torch::kBFloat16)), item.key()));
              DISTILL_RETURN_IF_ERROR(Expect(value.requires_grad(), "not to be trained"));
            }
            return absl::OkStatus();
          })) == "");
  }
}

TEST_CASE("an encoder whose blocks come later, sharded or not, gives the bits of one that was whole") {
  for (const std::string family : {R"("bert", "type_vocab_size": 2)", R"("distilbert")"}) {
    for (const bool has_weights : {true, false}) {
      INFO(family << ", weights " << has_weights);
      const testing::TempFolder folder;
      std::ofstream(folder.path() + "/config.json") << EncoderConfigOf(family);
      const auto load = [&](bool blocks_later) {
        const LoadOptions options = {.blocks_later = blocks_later};
        return has_weights ? LoadEncoder(folder.path(), options) : CreateEncoder(folder.path(), kSeed, options);
      };
      const auto same = [&](RunContext* run) -> absl::Status {
        DISTILL_ASSIGN_OR_RETURN(const auto whole, load(/*blocks_later=*/false));
        DISTILL_ASSIGN_OR_RETURN(const auto later, load(/*blocks_later=*/true));
        const torch::Tensor weight = later->BlockWeights()[1][0];
        const auto reads = [&] { return Expect(weight.sum().item<double>() == 0, "is there"); };
        DISTILL_RETURN_IF_ERROR(ExpectError(CatchTorch(reads), absl::StatusCode::kFailedPrecondition,
                                            {"r.1.", " is not in memory", "LoadBlocks"}));
        if (run == nullptr) {
          later->LoadBlocks();
        } else {
          DISTILL_RETURN_IF_ERROR(ShardFrozen(*run, *later));
        }
        const torch::NoGradGuard no_grad;
        const torch::Tensor expected = whole->Hidden(Ids()), found = later->Hidden(Ids());
        DISTILL_RETURN_IF_ERROR(Expect(found.equal(expected), "other states"));
        return Expect(later->HeadInput(found).equal(whole->HeadInput(expected)), "another head");
      };
      CHECK(Failures(RunRanks(1, kLimit, [&](const World&) -> absl::Status {
              if (has_weights) {
                DISTILL_ASSIGN_OR_RETURN(const auto made, CreateEncoder(folder.path(), kSeed));
                DISTILL_RETURN_IF_ERROR(made->Save(folder.path(), "", torch::kFloat32));
              }
              return same(nullptr);
            })) == "");
      CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
              DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
              return same(run.get());
            })) == "");
    }
  }
}

// Trains on labels, and saves by `save` where there is one.
absl::StatusOr<std::unique_ptr<BatchTask<TokenBatch>>> OnLabels(
    const std::shared_ptr<Decoder>& student, TokenBatches batches,
    const std::function<absl::Status(const std::string&)>& save) {
  DISTILL_ASSIGN_OR_RETURN(auto objective, LogitDistillation::CreateLive(nullptr, student, {.alpha = 0}));
  if (save == nullptr) return std::make_unique<BatchTask<TokenBatch>>(std::move(batches), std::move(objective));
  const auto loss = [objective](const TokenBatch& batch) { return objective->Forward(batch, {}); };
  return MakeTask(std::move(batches), {.forward = loss, .reported = {"ce"}, .save = save});
}

// Two steps of a student in stage 3, on labels.
absl::StatusOr<std::shared_ptr<Decoder>> Train(RunContext& run, const testing::TempFolder& folder, bool blocks_later,
                                               TrainerOptions options,
                                               const std::function<absl::Status(const std::string&)>& save) {
  DISTILL_ASSIGN_OR_RETURN(auto student, Load(folder, blocks_later));
  const auto data = MakeTokenDataset({{{1, 2, 3, 4}, {0, 1, 1, 1}}, {{5, 6, 7, 8}, {0, 1, 1, 1}}});
  DISTILL_ASSIGN_OR_RETURN(auto batches, TokenBatches::Create(data, run.rank(), run.world_size(), {}));
  DISTILL_ASSIGN_OR_RETURN(auto task, OnLabels(student, std::move(batches), save));
  options.learning_rate = 1e-3;
  options.logging_steps = 0;
  options.zero_stage = 3;
  DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, student, options));
  DISTILL_RETURN_IF_ERROR(trainer->Fit(*task).status());
  return student;
}

TEST_CASE("a rank that saves a sharded run, and all that resume one, hold a piece more than those that do not") {
  const testing::TempFolder folder, small, output, small_output;
  MakeFolder(folder, /*hidden=*/128, /*has_weights=*/false);
  MakeFolder(small, /*hidden=*/16, /*has_weights=*/false);
  CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
          Bytes bytes;
          const auto peak_of = [&](const testing::TempFolder& model, const std::string& output_dir, int64_t steps,
                                   const std::string& resume) {
            return PeakOf(*run, [&]() -> absl::Status {
              DISTILL_ASSIGN_OR_RETURN(const auto student, Train(*run, model, /*blocks_later=*/true,
                                                                 {.output_dir = output_dir,
                                                                  .max_steps = steps,
                                                                  .save_steps = 1,
                                                                  .resume_from_checkpoint = resume,
                                                                  .whole_after_fit = false},
                                                                 nullptr));
              bytes = BytesOf(*student);
              return absl::OkStatus();
            });
          };
          DISTILL_RETURN_IF_ERROR(peak_of(small, small_output.path(), 1, "").status());  // as above
          DISTILL_ASSIGN_OR_RETURN(const int64_t without, peak_of(folder, "", 1, ""));
          DISTILL_ASSIGN_OR_RETURN(const int64_t saving, peak_of(folder, output.path(), 1, ""));
          DISTILL_ASSIGN_OR_RETURN(const int64_t resuming, peak_of(folder, output.path(), 2, "latest"));
          for (const int64_t peak : {saving, resuming}) {
            DISTILL_RETURN_IF_ERROR(
                Expect(peak < without + bytes.block + kOther,
                       absl::StrCat(saving >> 10, " and ", resuming >> 10, " KiB, without files ", without >> 10)));
          }
          return absl::OkStatus();
        })) == "");
  CHECK(fs::file_size(output.path() + "/checkpoint-2/model.safetensors") > kBlocks << 20);
}

TEST_CASE("a student that is loaded block by block ends with the weights of one that was whole") {
  for (const bool bf16 : {false, true}) {
    const testing::TempFolder folder;
    MakeFolder(folder, /*hidden=*/32, /*has_weights=*/bf16);
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
            DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
            const TrainerOptions options = {.max_steps = 3, .bf16 = SwitchOf(bf16), .save_steps = 0};
            DISTILL_ASSIGN_OR_RETURN(const auto expected,
                                     Train(*run, folder, /*blocks_later=*/false, options, nullptr));
            DISTILL_ASSIGN_OR_RETURN(const auto found, Train(*run, folder, /*blocks_later=*/true, options, nullptr));
            const auto weights = expected->named_parameters();
            for (const auto& item : found->named_parameters()) {
              DISTILL_RETURN_IF_ERROR(Expect(item.value().equal(weights[item.key()]), item.key()));
            }
            return absl::OkStatus();
          })) == "");
  }
}

TEST_CASE("a writer that rank 0 alone has gets all weights; what Fit leaves sharded cannot be evaluated") {
  const testing::TempFolder folder, output;
  MakeFolder(folder, /*hidden=*/32, /*has_weights=*/false);
  CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
          DISTILL_ASSIGN_OR_RETURN(auto student, Load(folder, /*blocks_later=*/true));
          // One row: a rank has none.
          const auto data = MakeTokenDataset({{{1, 2, 3, 4}, {0, 1, 1, 1}}});
          DISTILL_ASSIGN_OR_RETURN(auto batches, TokenBatches::Create(data, run->rank(), run->world_size(), {}));
          DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(*run, student,
                                                                 {.output_dir = output.path(),
                                                                  .max_steps = 1,
                                                                  .logging_steps = 0,
                                                                  .save_steps = 0,
                                                                  .zero_stage = 3,
                                                                  .whole_after_fit = false}));
          int written = 0;
          const auto save = [&](const std::string&) -> absl::Status {
            for (const torch::Tensor& weight : student->parameters()) {
              DISTILL_RETURN_IF_ERROR(Expect(weight.isfinite().all().item<bool>(), "a weight is not there"));
            }
            ++written;
            return absl::OkStatus();
          };
          const auto not_called = [](const std::string&) { return absl::InternalError("rank 1 writes"); };
          DISTILL_ASSIGN_OR_RETURN(
              auto task, run->rank() == 0 ? OnLabels(student, batches, save) : OnLabels(student, batches, not_called));
          DISTILL_RETURN_IF_ERROR(trainer->Fit(*task).status());
          DISTILL_RETURN_IF_ERROR(Expect(written == (run->rank() == 0 ? 1 : 0), "not written once"));
          task->SetHeldOut(batches);
          return ExpectError(trainer->Evaluate(*task->evaluator()).status(), absl::StatusCode::kFailedPrecondition,
                             {"whole_after_fit"});
        })) == "");
}

TEST_CASE("a rank that is lost while a checkpoint is written is named to all, and there is no such checkpoint") {
  const testing::TempFolder folder, output;
  MakeFolder(folder, /*hidden=*/32, /*has_weights=*/false);
  const auto outcomes = RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
    const int64_t mine = getpid();
    std::vector<int64_t> pids(3);
    DISTILL_RETURN_IF_ERROR(run->communicator().AllGather(&mine, pids.data(), 1, DType::kInt64));
    const auto kills = [&](const std::string&) {
      kill(static_cast<pid_t>(pids[1]), SIGKILL);
      return absl::OkStatus();
    };
    const auto lost = Train(*run, folder, /*blocks_later=*/true,
                            {.output_dir = output.path(), .max_steps = 2, .save_steps = 1}, kills);
    return ExpectError(lost.status(), absl::StatusCode::kUnavailable, {"the checkpoint of step 1", "rank 1"});
  });
  CHECK(outcomes[1].signal == SIGKILL);
  for (const int survivor : {0, 2}) {
    INFO(outcomes[survivor].status);
    CHECK(outcomes[survivor].status.ok());
  }
  CHECK_FALSE(fs::exists(output.path() + "/checkpoint-1"));
  CHECK_FALSE(fs::exists(output.path() + "/.checkpoint-1.tmp"));
}

}  // namespace
}  // namespace distill
