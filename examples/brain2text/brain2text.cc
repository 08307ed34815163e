// Trains a network that spells phonemes out of neural recordings, with a layer of its own for each day.
//
//   distillrun -np 2 build/bin/brain2text --config_file examples/brain2text/demo.yaml
//   build/bin/brain2text --config_file rnn_args.yaml --dataset_dir s3://bucket/hdf5_data_diphone_encoded
//   build/bin/brain2text --plan --config_file examples/brain2text/brain2text.yaml --instance g5.2xlarge
//   build/bin/brain2text --dataset_dir DIR --predict test --trained_model OUTPUT_DIR/checkpoint/best_checkpoint
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "examples/brain2text/best_model.h"
#include "examples/brain2text/brain_task.h"
#include "examples/brain2text/compare_places.h"
#include "examples/brain2text/plan.h"
#include "examples/brain2text/predict.h"
#include "examples/recipe/job.h"
#include "examples/recipe/recipe.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/store/files.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_state.h"
#include "libdistill/world/world.h"

namespace distill {
namespace {

std::string BestFolder(const Brain2TextOptions& settled) { return JoinPath(settled.checkpoint_dir, "best_checkpoint"); }

// What can fail on one rank alone, before the ranks work together.
struct PreparedBrain {
  BrainData data;
  std::shared_ptr<DayGru> model;
  std::unique_ptr<BatchTask<TensorBatch>> task;
};

absl::StatusOr<PreparedBrain> PrepareBrain(const RunContext& run, const Brain2TextOptions& options) {
  PreparedBrain made;
  DISTILL_ASSIGN_OR_RETURN(made.data, OpenBrainData(options));
  DISTILL_ASSIGN_OR_RETURN(made.model, NewDayGru(options, run.device()));
  std::shared_ptr<DayGru> teacher;
  if (!options.teacher_model.empty()) {
    DISTILL_ASSIGN_OR_RETURN(teacher, LoadDayGru(options.teacher_model));
    teacher->to(run.device());
  }
  DISTILL_ASSIGN_OR_RETURN(auto objective,
                           PhonemeObjective::Create(made.model, std::move(teacher), PhonemeOptionsOf(options)));
  DISTILL_ASSIGN_OR_RETURN(made.task, MakeBrainTask(run.world(), options, made.data, std::move(objective)));
  return made;
}

std::string DescribeJob(const Brain2TextOptions& options, const PreparedBrain& made) {
  int64_t all = 0, of_days = 0;
  for (const auto& item : made.model->named_parameters()) {
    all += item.value().numel();
    if (absl::StartsWith(item.key(), "day_")) of_days += item.value().numel();
  }
  return absl::StrFormat(
      "training %.2f million parameters, %.2f of them day layers, on %d trials of %d sessions; a step is %d trials of "
      "%d days; %d trials are held out",
      static_cast<double>(all) * 1e-6, static_cast<double>(of_days) * 1e-6, made.data.train->size(),
      made.data.train->sessions().size(), options.batch_size, options.days_per_batch,
      made.data.held_out == nullptr ? 0 : made.data.held_out->size());
}

absl::Status TrainBrain(RunContext& run, const Brain2TextOptions& given) {
  const Brain2TextOptions options = Settle(given);
  DISTILL_RETURN_IF_ERROR(
      BeginJob(run, options, {{"dataset_dir", options.dataset_dir}, {"teacher_model", options.teacher_model}}));
  absl::StatusOr<PreparedBrain> made = absl::UnknownError("not prepared");
  const absl::Status prepared = CatchTorch([&] { return (made = PrepareBrain(run, options)).status(); });
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), prepared));
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, made->model, TrainerOptionsOf(options)));
  DISTILL_RETURN_IF_ERROR(SaveConfig(run, TrainerOptionsOf(options)));
  if (run.rank() == 0) LogInfo(DescribeJob(options, *made));
  if (run.rank() == 0 && options.save_best_checkpoint && made->data.held_out != nullptr) {
    const auto write = [model = made->model](const std::string& folder) { return SaveDayGru(*model, folder); };
    trainer->AddObserver(std::make_shared<BestModel>(BestFolder(options), write, WillResume(options.trainer)));
  }
  return trainer->Fit(*made->task).status();
}

std::string Where(const Brain2TextOptions& given) {
  const std::string folder = BestFolder(Settle(given));
  if (!given.save_best_checkpoint || !FileExists(JoinPath(folder, kBestMetricsFile))) return "";
  return absl::StrCat("the best model is in ", folder, "; to see what it spells: brain2text --predict val ",
                      "--trained_model ", folder, " --dataset_dir ", given.dataset_dir);
}

// One step of few trials, and the held-out ones of one session: the model is as large as asked for.
void ShrinkBrain(Brain2TextOptions& options) {
  if (auto held_out = HeldOutSessions(options); held_out.ok()) {
    const auto first = std::find(held_out->begin(), held_out->end(), true) - held_out->begin();
    for (size_t day = 0; day < held_out->size(); ++day) (*held_out)[day] = static_cast<int64_t>(day) == first;
    options.dataset_probability_val = absl::StrJoin(std::vector<int>(held_out->begin(), held_out->end()), ",");
  }
  options.gradient_accumulation_steps = 1;
  const absl::StatusOr<World> world = ReadWorld();  // a trial for each rank
  const int64_t fewest = world.ok() ? world->world_size : 1;
  options.batch_size = std::min(options.batch_size, std::max<int64_t>(8, fewest));
  options.days_per_batch = std::min(options.days_per_batch, options.batch_size);
  options.checkpoint_dir.clear();  // in the temporary folder
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  using distill::Brain2TextFlags;
  using distill::Brain2TextOptions;
  using distill::RunContext;
  distill::Recipe<Brain2TextOptions, Brain2TextFlags> recipe = {
      .name = "brain2text", .description = "Trains a network that spells phonemes out of neural recordings."};
  recipe.run = distill::TrainBrain;
  recipe.plan = distill::PlanBrain;
  recipe.where = distill::Where;
  recipe.shrink = distill::ShrinkBrain;
  recipe.check = distill::CheckBrain2Text;
  recipe.instead = [](const auto& command) -> std::function<absl::Status(RunContext&)> {
    const Brain2TextOptions options = distill::Settle(command.options);
    const Brain2TextFlags flags = command.flags;
    if (!flags.predict.empty()) return [=](RunContext& run) { return distill::Predict(run, options, flags); };
    if (flags.compare_dataset_dir.empty()) return nullptr;
    return [=](RunContext& run) { return distill::ComparePlaces(run, options, flags); };
  };
  return distill::RunRecipe(argc, argv, recipe);
}
