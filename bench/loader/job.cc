// A whole training job over the trials of an HDF5 file, wherever it lies: a GRU with CTC. OUTPUT_DIR/metrics.jsonl has
// what each step waited for its data; the last line on stdout is the time from the process' start to the job's end.
//
//   build/bin/bench_trial_job FILE OUTPUT_DIR [--steps N] [--rows N] [--hidden N] [--cache_blocks N]
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ops/ctc_loss.h>

#include "absl/time/time.h"
#include "bench/arguments.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/data/hdf5_trials.h"
#include "libdistill/nn/gru.h"
#include "libdistill/run/run.h"
#include "libdistill/task/make_task.h"
#include "libdistill/train/trainer.h"

namespace distill {
namespace {

constexpr int64_t kFeatures = 512, kClasses = 41;

struct JobOptions {
  std::string file, output_dir;
  int64_t steps = 40;
  int64_t rows = 8;
  int64_t hidden = 256;
  int64_t cache_blocks = 32;  // less than the file has, so that each epoch is read anew
};

absl::StatusOr<Batches<TensorBatch>> Deal(const RunContext& run, const JobOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<Hdf5Trials> trials,
                           Hdf5Trials::Open({options.file}, {.datasets = {"input_features", "seq_class_ids"},
                                                             .attributes = {"seq_len"},
                                                             .cache_blocks = options.cache_blocks}));
  DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(std::move(trials), run.rank(), run.world_size(),
                                                             {.rows_per_rank = options.rows}));
  return MakeBatches(std::move(sharder), [](auto rows) {
    return StackRows(rows, {{{"input_features"}, {"seq_class_ids"}}});
  });
}

absl::Status TrainJob(RunContext& run, const JobOptions& options) {
  auto model = std::make_shared<GruCtc>(
      GruOptions{.features = kFeatures, .hidden = options.hidden, .layers = 2, .classes = kClasses});
  DISTILL_ASSIGN_OR_RETURN(auto batches, Deal(run, options));
  const auto forward = [model](const TensorBatch& batch) {
    const auto [log_probabilities, lengths] = model->forward(batch["input_features"], batch["input_features_lengths"]);
    const torch::Tensor targets = batch["seq_class_ids"].remainder(kClasses - 1).add(1);  // class 0 is the blank
    const torch::Tensor sum = at::ctc_loss(log_probabilities, targets, lengths, batch["seq_len"].flatten(),
                                           /*blank=*/0, at::Reduction::Sum);
    return Losses{{"loss", sum, batch.rows()}};
  };
  auto task = MakeTask(std::move(batches), {.forward = forward});
  TrainerOptions trainer_options;
  trainer_options.output_dir = options.output_dir;
  trainer_options.max_steps = options.steps;
  trainer_options.save_steps = 0;
  trainer_options.report_to = {ReportTo::kJsonl};
  trainer_options.disable_tqdm = true;
  DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, model, trainer_options));
  DISTILL_ASSIGN_OR_RETURN(const TrainResult result, trainer->Fit(*task));
  std::printf("JSON {\"seconds\": %.4f, \"checksum\": \"%.9g\"}\n", absl::ToDoubleSeconds(run.age()),
              result.train_loss);
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments("A training job over trials of an HDF5 file");
  distill::JobOptions options;
  arguments.Add("file", options.file, "on a disk, or s3://").Required();
  arguments.Add("output_dir", options.output_dir, "for metrics.jsonl").Required();
  arguments.Add("--steps", options.steps).Positive();
  arguments.Add("--rows", options.rows, "of a step").Positive();
  arguments.Add("--hidden", options.hidden, "units of each of the two layers").Positive();
  arguments.Add("--cache_blocks", options.cache_blocks, "of 1 MiB").Positive();
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  distill::RunOptions run;
  run.device = distill::DeviceChoice::kCpu;
  return distill::Run(run, [&](distill::RunContext& context) { return distill::TrainJob(context, options); });
}
