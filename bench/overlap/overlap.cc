// How much longer a backward pass takes when its gradients are summed over ranks meanwhile: 67 million parameters,
// DistilBERT, float32, 8 x 128 tokens a rank.
//
//   distillrun -np 2 build/bin/bench_overlap
//
// Compares the sums with those of a plain all-reduce first. Then each round times, after a barrier: a step with
// communication, the same step without, and the buckets' all-reduces alone; medians of the rounds are printed, and that
// of their ratios. The words' table is the head as well. With --dense all of its rows have a gradient, without it only
// those of a step's words.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/arguments.h"
#include "bench/distilbert.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/model_gradients.h"
#include "libdistill/nn/encoder.h"
#include "libdistill/run/run.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

constexpr int64_t kTokens = 128;

struct Settings {
  int64_t rounds = 7;
  int64_t rows = 8;  // of kTokens tokens each, a rank
  GradientCompression compression = GradientCompression::kNone;
  int64_t bucket_bytes = GradientReducerOptions().bucket_bytes;
  bool dense = false;
};

class StopWatch {
 public:
  double Milliseconds() const { return std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Milliseconds of one step.
struct StepTime {
  double step = 0, backward = 0;  // the latter until all gradients are summed
};

absl::StatusOr<StepTime> Step(const std::shared_ptr<GradientReducer>& reducer, Encoder& model, const torch::Tensor& ids,
                              bool dense) {
  GiveGradientsTo(reducer, model);
  const StopWatch step;
  reducer->StartStep();
  torch::Tensor loss = model.HeadInput(model.Hidden({ids, {}})).square().sum();
  loss = loss + model.head_bias().sum();  // a parameter without a gradient would hold its bucket back
  if (dense) loss = loss + model.head_weight().sum();
  const StopWatch backward;
  loss.backward();
  absl::Status mine;
  DISTILL_RETURN_IF_ERROR(reducer->Finish(mine));
  DISTILL_RETURN_IF_ERROR(mine);
  return StepTime{step.Milliseconds(), backward.Milliseconds()};
}

// Each bucket of `local`, summed by a call after the backward pass, against what `reducer` has.
absl::Status Verify(Communicator& comm, const GradientReducer& reducer, const GradientReducer& local,
                    GradientCompression compression) {
  double worst = 0;
  for (size_t i = 0; i < reducer.buckets().parameters().size(); ++i) {
    const torch::Tensor sum = local.buckets().gradient(i).clone(), found = reducer.buckets().gradient(i);
    auto* data = static_cast<float*>(sum.data_ptr());
    DISTILL_RETURN_IF_ERROR(comm.AllReduce(data, data, sum.numel(), DType::kFloat32, ReduceOp::kSum));
    const double largest = sum.abs().max().item<double>();
    if (largest > 0) worst = std::max(worst, (sum - found).abs().max().item<double>() / largest);
  }
  const bool right = worst <= (compression == GradientCompression::kNone ? 1e-5 : 2e-2);
  return Agree(comm, right ? absl::OkStatus()
                           : absl::InternalError(absl::StrCat("gradients are off by ", worst, " of the largest")));
}

// All buckets while nothing else runs, of the type that travels.
absl::StatusOr<double> CommunicationAlone(Communicator& comm, const GradientReducer& reducer, DType dtype) {
  const StopWatch watch;
  for (size_t b = 0; b < reducer.buckets().num_buckets(); ++b) {
    const torch::Tensor& values = reducer.buckets().bucket(b).values;
    DISTILL_RETURN_IF_ERROR(
        comm.AllReduce(values.data_ptr(), values.data_ptr(), values.numel(), dtype, ReduceOp::kSum));
  }
  return watch.Milliseconds();
}

// Milliseconds of each round.
struct Rounds {
  std::vector<double> with, without, step_with, step_without, communication, waited;
};

void Report(const Communicator& comm, const GradientReducer& reducer, const Settings& settings, const Rounds& rounds) {
  int64_t elements = 0, summed = 0;
  const GradientBuckets& buckets = reducer.buckets();
  for (size_t b = 0; b < buckets.num_buckets(); ++b) {
    elements += buckets.bucket(b).values.numel();
    summed += buckets.bucket(b).summed;
  }
  std::vector<double> ratios;  // of each round by itself: the machine's speed changes from round to round
  for (size_t i = 0; i < rounds.with.size(); ++i) ratios.push_back(rounds.with[i] / rounds.without[i]);
  const int64_t last = buckets.bucket(buckets.num_buckets() - 1).values.numel();
  const auto mebibytes = [](int64_t count) { return static_cast<double>(count) * 4 / (1 << 20); };
  std::printf(
      "%zu buckets, %.1f MiB, of it %.1f in the last one; %.1f were summed, the rest was zeros; %lld buckets were sent "
      "before the backward pass was over\n",
      buckets.num_buckets(), mebibytes(elements), mebibytes(last), mebibytes(summed),
      static_cast<long long>(reducer.stats().early_buckets));
  std::printf(
      "JSON {\"case\": \"%s/%d/%s\", \"bytes\": %lld, \"backward_ms\": %.2f, \"backward_with_ms\": %.2f, "
      "\"ratio\": %.3f, \"step_ms\": %.2f, \"step_with_ms\": %.2f, \"communication_ms\": %.2f, \"waited_ms\": %.2f}\n",
      std::string(comm.backend()).c_str(), comm.world_size(), FieldText(settings.compression).c_str(),
      static_cast<long long>(elements * 4), Median(rounds.without), Median(rounds.with), Median(ratios),
      Median(rounds.step_without), Median(rounds.step_with), Median(rounds.communication), Median(rounds.waited));
}

absl::Status Bench(RunContext& run, const Settings& settings) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ParseEncoderConfig(kDistilBert, "bench"));
  Encoder model(config);
  torch::manual_seed(static_cast<uint64_t>(1 + run.rank()));
  const torch::Tensor ids = torch::randint(1, config.vocab_size, {settings.rows, kTokens});
  DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(model, {}));
  const GradientReducerOptions options = {.bucket_bytes = settings.bucket_bytes,
                                          .compression = settings.compression,
                                          .rows_of = TiedTable(model, parameters)};
  Communicator& comm = run.communicator();
  const auto alone = CreateAloneCommunicator();
  // Both have hooks; those of the one that is not in a step do nothing.
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<GradientReducer> reducer,
                           GradientReducer::Create(comm, parameters, options));
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<GradientReducer> local,
                           GradientReducer::Create(*alone, parameters, options));
  const DType travels = settings.compression == GradientCompression::kNone ? DType::kFloat32 : DType::kBFloat16;
  Rounds rounds;
  // The first step is observed, the second has the plan; two more until connections have reached their speed.
  for (int64_t round = -4; round < settings.rounds; ++round) {
    DISTILL_RETURN_IF_ERROR(comm.Barrier());
    DISTILL_ASSIGN_OR_RETURN(const StepTime joined, Step(reducer, model, ids, settings.dense));
    const double waited = absl::ToDoubleMilliseconds(reducer->stats().waited);
    DISTILL_RETURN_IF_ERROR(comm.Barrier());
    DISTILL_ASSIGN_OR_RETURN(const StepTime single, Step(local, model, ids, settings.dense));
    if (round < 0) DISTILL_RETURN_IF_ERROR(Verify(comm, *reducer, *local, settings.compression));
    DISTILL_RETURN_IF_ERROR(comm.Barrier());
    DISTILL_ASSIGN_OR_RETURN(const double calls, CommunicationAlone(comm, *reducer, travels));
    if (run.rank() == 0) {
      std::printf(
          "backward %6.0f ms, with communication %6.0f (waited %4.0f); step %6.0f, with %6.0f; communication %5.0f\n",
          single.backward, joined.backward, waited, single.step, joined.step, calls);
      std::fflush(stdout);
    }
    if (round < 0) continue;
    rounds.with.push_back(joined.backward), rounds.without.push_back(single.backward);
    rounds.step_with.push_back(joined.step), rounds.step_without.push_back(single.step);
    rounds.communication.push_back(calls), rounds.waited.push_back(waited);
  }
  if (run.rank() == 0) Report(comm, *reducer, settings, rounds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments(
      "A backward pass of 67 million parameters, with and without the communication of its gradients");
  distill::Settings settings;
  arguments.Add("--rounds", settings.rounds).Between(1, 1000);
  arguments.Add("--rows", settings.rows, "of 128 tokens each, a rank").Between(1, 1024);
  std::string compression = "none";
  arguments.Add("--gradient_compression", compression).OneOf({"none", "bf16"});
  arguments.Add("--bucket_bytes", settings.bucket_bytes);
  arguments.AddFlag("--dense", settings.dense, "every word has a gradient");
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  distill::ParseField(compression, settings.compression);
  return distill::Run({.device = distill::DeviceChoice::kCpu},
                      [&](distill::RunContext& run) { return distill::Bench(run, settings); });
}
