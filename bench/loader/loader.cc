// How many samples a second a Loader hands out to a step that takes no time: token samples in memory, and samples of a
// store whose every answer takes long. What comes out is compared with what one thread makes before it is timed.
//
//   build/bin/bench_loader [--steps N] [--read_ms N] [--workers 0,1,2,4,8]
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/arguments.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/loader.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/data/token_dataset.h"

namespace distill {
namespace {

constexpr int64_t kRows = 8, kAccumulation = 4, kMaxLength = 1024;

std::shared_ptr<Dataset> Conversations() {
  std::vector<TokenSample> samples;
  for (uint64_t i = 0; i < 2000; ++i) {
    Random random(1, i);
    const size_t length = 200 + random.Below(600);
    TokenSample sample{std::vector<int32_t>(length), std::vector<uint8_t>(length, 1)};
    for (int32_t& id : sample.ids) id = static_cast<int32_t>(random.Below(50000));
    samples.push_back(std::move(sample));
  }
  return MakeTokenDataset(std::move(samples));
}

// The same samples, far away.
class FarAway : public Dataset {
 public:
  FarAway(std::shared_ptr<const Dataset> samples, std::chrono::microseconds answer)
      : samples_(std::move(samples)), answer_(answer) {}
  int64_t size() const override { return samples_->size(); }
  absl::StatusOr<int64_t> Length(int64_t index) const override { return samples_->Length(index); }
  absl::StatusOr<Sample> Read(int64_t index) const override {
    if (answer_.count() > 0) std::this_thread::sleep_for(answer_);
    return samples_->Read(index);
  }
  absl::StatusOr<std::string> Fingerprint() const override { return samples_->Fingerprint(); }

 private:
  const std::shared_ptr<const Dataset> samples_;
  const std::chrono::microseconds answer_;
};

absl::StatusOr<TokenBatches> Deal(std::shared_ptr<const Dataset> data) {
  return TokenBatches::Create(std::move(data), 0, 1,
                              {.rows_per_rank = kRows, .accumulation_steps = kAccumulation, .max_length = kMaxLength});
}

absl::Status Verify(std::shared_ptr<const Dataset> data, int64_t workers) {
  DISTILL_ASSIGN_OR_RETURN(TokenBatches plain, Deal(data));
  DISTILL_ASSIGN_OR_RETURN(TokenBatches source, Deal(data));
  Loader<TokenBatch> loader(source, {.num_workers = workers});
  for (int step = 0; step < 2; ++step) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<TokenBatch> expected, plain.NextStep());
    DISTILL_ASSIGN_OR_RETURN(const std::vector<TokenBatch> found, loader.NextStep());
    if (found.size() != expected.size()) return absl::InternalError("a step has other micro-batches");
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].input_ids != expected[i].input_ids || found[i].labels != expected[i].labels) {
        return absl::InternalError(absl::StrCat("micro-batch ", i, " differs from that of one thread"));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> SamplesPerSecond(std::shared_ptr<const Dataset> data, int64_t workers, int64_t steps) {
  DISTILL_ASSIGN_OR_RETURN(TokenBatches source, Deal(std::move(data)));
  Loader<TokenBatch> loader(source, {.num_workers = workers});
  DISTILL_RETURN_IF_ERROR(loader.NextStep().status());  // threads start, the epoch is shuffled
  int64_t samples = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<TokenBatch> made, loader.NextStep());
    for (const TokenBatch& batch : made) samples += static_cast<int64_t>(batch.sample_ids.size());
  }
  return static_cast<double>(samples) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

absl::Status Run(int64_t steps, double read_ms, const std::vector<int64_t>& workers) {
  const std::shared_ptr<Dataset> samples = Conversations();
  std::printf("%-24s %8s %14s\n", "samples", "workers", "samples/s");
  for (const double ms : {0.0, read_ms}) {
    const auto data = std::make_shared<FarAway>(samples, std::chrono::microseconds(static_cast<int64_t>(1000 * ms)));
    const std::string name = ms == 0 ? "in memory" : absl::StrCat(ms, " ms a read");
    // One thread alone needs milliseconds for each sample of the slow store.
    const int64_t timed = ms == 0 ? steps : std::max<int64_t>(2, steps / 200);
    for (const int64_t count : workers) {
      DISTILL_RETURN_IF_ERROR(Verify(data, count));
      DISTILL_ASSIGN_OR_RETURN(const double rate, SamplesPerSecond(data, count, timed));
      std::printf("%-24s %8lld %14.0f\n", name.c_str(), static_cast<long long>(count), rate);
      std::printf("JSON {\"case\": \"%s, %lld workers\", \"samples_per_second\": %.1f}\n", name.c_str(),
                  static_cast<long long>(count), rate);
      std::fflush(stdout);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments("Samples a second that a Loader hands out to a step that takes no time");
  int64_t steps = 2000;
  double read_ms = 20;
  std::vector<int64_t> workers = {0, 1, 2, 4, 8};
  arguments.Add("--steps", steps, "of 32 samples each; a two-hundredth of them out of the slow store");
  arguments.Add("--read_ms", read_ms, "how long the slow store takes for a sample");
  arguments.Add("--workers", workers, "numbers of threads");
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  const absl::Status status = distill::Run(steps, read_ms, workers);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", status.ToString().c_str());
  return 1;
}
