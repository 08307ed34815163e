// A whole run whose output log scrapers read: a line is found from points, and judged as answers to questions are.
//
//   scraped_run OUTPUT STEPS [--resume]
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/run/run.h"
#include "libdistill/train/trainer.h"
#include "tests/support/counted_task.h"

namespace distill {
namespace {

struct Line : torch::nn::Module {
  Line() { slope = register_parameter("slope", torch::zeros({1})); }
  torch::Tensor slope;
};

class Judged : public Evaluator {
 public:
  explicit Judged(const Line& line) : line_(line) {}
  absl::Status Start(c10::Device) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> Steps() override { return 0; }
  absl::StatusOr<std::vector<Pass>> NextStep() override { return std::vector<Pass>(); }
  absl::StatusOr<MetricValues> Summarize(const MetricValues&, const Predictions&) override {
    const double error = std::abs(line_.slope.item<double>() - 3);
    return MetricValues{{"loss", error * error}, {"f1", 100 / (1 + error)}, {"exact_match", error < 0.1 ? 100 : 12.5}};
  }

 private:
  const Line& line_;
};

// No tokens: 8 points a step.
class Points : public testing::CountedTask {
 public:
  Points(Line& line, int rank, int world_size) : line_(line), judged_(line), rank_(rank), world_size_(world_size) {}
  int64_t steps_per_epoch() const override { return 10; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    std::vector<float> points;
    for (int64_t i = rank_; i < 8; i += world_size_) points.push_back(std::sin(static_cast<float>(8 * made_ + i)));
    ++made_;
    const auto count = static_cast<int64_t>(points.size());
    return std::vector<MicroStep>{{.counts = {count}, .num_samples = count, .forward = [=, this](const PassScale&) {
                                     const torch::Tensor x = torch::tensor(points);
                                     return Losses{{"loss", (x * (line_.slope - 3)).square().sum(), count}};
                                   }}};
  }
  Evaluator* evaluator() override { return &judged_; }

 private:
  Line& line_;
  Judged judged_;
  const int64_t rank_, world_size_;
};

absl::Status Train(RunContext& run, const std::string& output, int64_t steps, bool resumes) {
  const auto line = std::make_shared<Line>();
  Points points(*line, run.rank(), run.world_size());
  TrainerOptions options{.output_dir = output, .max_steps = steps, .learning_rate = 0.1};
  options.print_metrics = true;
  options.eval_steps = 10;
  options.resume_from_checkpoint = resumes ? "latest" : "";
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, line, options));
  return trainer->Fit(points).status();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::RunOptions options;
  if (argc < 3) options.input = absl::InvalidArgumentError("usage: scraped_run OUTPUT STEPS [--resume]");
  return distill::Run(
      options, [&](distill::RunContext& run) { return distill::Train(run, argv[1], std::atoll(argv[2]), argc > 3); });
}
