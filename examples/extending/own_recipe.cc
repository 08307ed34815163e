// A recipe of your own: a small net learns the curve through the points of a file. Its program has --help, config
// files,
// --plan, --dry_run, checkpoints and the rest of what every recipe has.
#include <torch/nn/modules/linear.h>

#include <libdistill/distill.h>
#include <libdistill/store/files.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "examples/recipe/job.h"
#include "examples/recipe/recipe.h"

namespace {

struct CurveOptions {
  std::string points;
  int64_t max_points = 0;
  int64_t hidden = 16;
  distill::ShardOptions shard;
  distill::TrainerOptions trainer;
  distill::RunOptions run;
};

template <class V>
void Describe(V& v, CurveOptions& o) {
  v.Group("Data and model");
  v.Field("points", o.points, "a file with a point (x y) in each line").Path().Alias("train_file");
  v.Field("max_points", o.max_points, distill::AtLeast(0), "only the first so many; 0: all");
  v.Field("hidden", o.hidden, distill::AtLeast(1), "units between x and y");
  Describe(v, o.shard);
  Describe(v, o.trainer);
  Describe(v, o.run);
}

struct Net : torch::nn::Module {
  explicit Net(int64_t hidden) {
    first = register_module("first", torch::nn::Linear(1, hidden));
    second = register_module("second", torch::nn::Linear(hidden, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first = nullptr, second = nullptr;
};

absl::StatusOr<std::shared_ptr<distill::Dataset>> ReadPoints(const CurveOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::string text, distill::ReadFile(options.points));
  std::vector<distill::Sample> samples;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    if (options.max_points > 0 && std::ssize(samples) == options.max_points) break;
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    float x = 0, y = 0;
    if (!absl::SimpleAtof(parts.first, &x) || !absl::SimpleAtof(parts.second, &y)) {
      return absl::InvalidArgumentError(absl::StrCat("points: ", options.points, ", line ", samples.size() + 1, ": '",
                                                     line, "' is no point: write two numbers, x and y"));
    }
    samples.push_back({.tensors = {{"x", distill::HostTensor(std::vector<float>{x})},
                                   {"y", distill::HostTensor(std::vector<float>{y})}}});
  }
  return distill::MakeDataset(std::move(samples));
}

absl::Status Train(distill::RunContext& run, const CurveOptions& options) {
  DISTILL_RETURN_IF_ERROR(distill::BeginJob(run, options, {{"points", options.points}}));
  DISTILL_ASSIGN_OR_RETURN(auto points, ReadPoints(options));
  DISTILL_ASSIGN_OR_RETURN(auto sharder,
                           distill::DataSharder::Create(points, run.rank(), run.world_size(), options.shard));
  torch::manual_seed(options.trainer.seed);
  const auto net = std::make_shared<Net>(options.hidden);
  auto batches = distill::MakeBatches(std::move(sharder), [](auto rows) { return distill::StackRows(rows); });
  const auto task = distill::MakeTask(std::move(batches), {.forward = [net](const distill::TensorBatch& batch) {
                                        const torch::Tensor error = net->forward(batch["x"]) - batch["y"];
                                        return distill::Losses{{"loss", error.square().sum(), batch.rows()}};
                                      }});
  const distill::TrainerOptions trainer_options = distill::TrainerOptionsOf(options);
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, distill::Trainer::Create(run, net, trainer_options));
  DISTILL_RETURN_IF_ERROR(distill::SaveConfig(run, trainer_options));
  return trainer->Fit(*task).status();
}

// Weights, their gradients and AdamW's two moments, in float32.
absl::StatusOr<std::string> Plan(const CurveOptions& options, const distill::PlanFlags&, const distill::World&) {
  const int64_t weights = 3 * options.hidden + 1, states = options.shard.rows_per_rank * options.hidden;
  return absl::StrFormat("%d bytes a rank: %d weights, %d units of a batch\n", 16 * weights + 4 * states, weights,
                         states);
}

absl::Status Check(const CurveOptions& options, const distill::RecipeFlags& flags) {
  if (flags.plan || !options.points.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("points is missing: give it in the config file or as --points");
}

}  // namespace

int main(int argc, char** argv) {
  distill::Recipe<CurveOptions> recipe = {.name = "own_recipe", .description = "Learns a curve from its points."};
  recipe.run = Train;
  recipe.plan = Plan;
  recipe.shrink = [](CurveOptions& options) { options.max_points = 4, options.shard.rows_per_rank = 2; };
  recipe.check = Check;
  return distill::RunRecipe(argc, argv, recipe);
}
