// A loss of a user's own, as docs/losses.md has it, beside what the library makes of the same loss.
#include "libdistill/distill.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"
#include "tests/train/tiny_llama.h"

namespace {

using distill::testing::Failures;
using distill::testing::RunRanks;

absl::StatusOr<std::shared_ptr<distill::Decoder>> Student() {
  DISTILL_ASSIGN_OR_RETURN(const distill::DecoderConfig config, distill::testing::TinyLlama());
  return std::make_shared<distill::Decoder>(config);
}

absl::StatusOr<double> Train(const distill::World& world, const std::string& folder, bool own) {
  DISTILL_ASSIGN_OR_RETURN(auto comm,
                           distill::CreateCommunicator(world, {.backend = distill::BackendPreference::kShm}));
  distill::RunContext run(world, std::move(comm), torch::kCPU);
  DISTILL_ASSIGN_OR_RETURN(const auto student, Student());
  const auto data = distill::MakeTokenDataset({{{1, 2, 3, 4}, {0, 1, 1, 1}}, {{5, 6, 7, 8}, {0, 0, 1, 1}}});
  DISTILL_ASSIGN_OR_RETURN(auto batches, distill::TokenBatches::Create(data, run.rank(), run.world_size(), {}));
  DISTILL_ASSIGN_OR_RETURN(auto trainer,
                           distill::Trainer::Create(run, student, {.output_dir = folder, .max_steps = 4}));
  const auto fit = [&](distill::Task& task) -> absl::StatusOr<double> {
    DISTILL_ASSIGN_OR_RETURN(const distill::TrainResult result, trainer->Fit(task));
    return result.train_loss;
  };
  if (!own) {
    DISTILL_ASSIGN_OR_RETURN(const auto task,
                             distill::Distiller::Create(nullptr, student, std::move(batches), {.alpha = 0}));
    return fit(*task);
  }
  const auto loss = [&](const distill::TokenBatch& batch) -> distill::Losses {
    const distill::TokenTensors tensors = distill::ToTensors(batch, run.device());
    const torch::Tensor logits = student->HiddenAt(tensors.input, tensors.positions).matmul(student->head_weight().t());
    const torch::Tensor log_q = torch::log_softmax(logits, -1);
    return {{"loss", -log_q.gather(1, tensors.labels.unsqueeze(1)).sum(), tensors.labels.numel()}};
  };
  const auto save = [&](const std::string& written) {
    return student->Save(written, student->source_folder(), torch::kFloat32);
  };
  const auto task = distill::MakeTask(std::move(batches), {.forward = loss, .save = save});
  return fit(*task);
}

TEST_CASE("a callable that takes cross-entropy trains as a distiller that does, and leaves a model that loads") {
  const distill::testing::TempFolder own, librarys;
  CHECK(Failures(RunRanks(2, absl::Seconds(60), [&](const distill::World& world) -> absl::Status {
          torch::set_num_threads(1);
          DISTILL_ASSIGN_OR_RETURN(const double found, Train(world, own.path(), /*own=*/true));
          DISTILL_ASSIGN_OR_RETURN(const double expected, Train(world, librarys.path(), /*own=*/false));
          return distill::testing::Expect(std::abs(found - expected) < 1e-5 * expected,
                                          absl::StrCat("losses ", found, " and ", expected));
        })) == "");
  CHECK(distill::LoadDecoder(own.path()).status() == absl::OkStatus());
}

}  // namespace
