// A task of your own, without a data set: each step draws points of a line, and a model of two numbers finds the line.
#include <cmath>
#include <cstdio>

#include <libdistill/distill.h>

namespace {

struct Line : torch::nn::Module {
  Line() {
    slope = register_parameter("slope", torch::zeros({1}));
    offset = register_parameter("offset", torch::zeros({1}));
  }
  torch::Tensor slope, offset;
};

class Points : public distill::Task {
 public:
  Points(Line& line, int rank, int world_size) : line_(line), rank_(rank), world_size_(world_size) {}

  absl::StatusOr<int64_t> StepsInEpoch(int64_t) override { return 100; }

  // This rank's part of step `made_`: the same points for any number of ranks.
  absl::StatusOr<std::vector<distill::MicroStep>> NextStep() override {
    std::vector<float> points;
    for (int64_t i = rank_; i < 8; i += world_size_) points.push_back(std::sin(static_cast<float>(8 * made_ + i)));
    ++made_;
    const auto count = static_cast<int64_t>(points.size());
    distill::MicroStep step{.counts = {count}, .num_samples = count};
    step.forward = [this, points, count](const distill::PassScale&) {
      const torch::Tensor x = torch::tensor(points), error = x * line_.slope + line_.offset - (3 * x + 0.5);
      return distill::Losses{{"loss", error.square().sum(), count}};
    };
    return std::vector<distill::MicroStep>{std::move(step)};
  }

  // Saved with each checkpoint, with a version of its own, and given back when the run is resumed.
  std::string Position() const override { return absl::StrCat("1 ", made_); }
  absl::Status Restore(const std::string& position) override {
    if (std::sscanf(position.c_str(), "1 %ld", &made_) == 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("'", position, "' is no position of this task"));
  }

 private:
  Line& line_;
  const int rank_, world_size_;
  int64_t made_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  distill::RunOptions options;
  if (argc != 2) options.input = absl::InvalidArgumentError("usage: own_task OUTPUT");
  return distill::Run(options, [&](distill::RunContext& run) -> absl::Status {
    const auto line = std::make_shared<Line>();
    Points task(*line, run.rank(), run.world_size());
    DISTILL_ASSIGN_OR_RETURN(
        auto trainer,
        distill::Trainer::Create(run, line, {.output_dir = argv[1], .max_steps = 200, .learning_rate = 0.1}));
    DISTILL_RETURN_IF_ERROR(trainer->Fit(task).status());
    if (run.rank() == 0)
      std::printf("slope %.2f, offset %.2f\n", line->slope.item<double>(), line->offset.item<double>());
    return absl::OkStatus();
  });
}
