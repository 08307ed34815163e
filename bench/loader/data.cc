// How fast data sets are read, from a disk or from a store. Prints what a run took, with a checksum of what it read.
//
//   build/bin/bench_data rows FILE [--threads N]                        parsed, each field looked at
//   build/bin/bench_data tokens FILE --tokenizer FOLDER --cache FOLDER  through the token cache
//   build/bin/bench_data trials FILE [--count N] [--threads N]          HDF5 trials at random
//   build/bin/bench_data shuffle [--samples N]                          the first step of an epoch of so many samples
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "bench/arguments.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_dataset.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/data/hdf5_trials.h"
#include "libdistill/data/rows.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/readable_file.h"

namespace distill {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The process' own memory and the part of mapped files that is in it, in MB.
double ResidentMb(const char* field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    absl::string_view text = line;
    int64_t kib = 0;
    if (absl::ConsumePrefix(&text, field) && absl::ConsumeSuffix(&text, " kB") && absl::SimpleAtoi(text, &kib)) {
      return static_cast<double>(kib) * 1.024e-3;
    }
  }
  return 0;
}

absl::Status ReadRows(const std::string& path, int64_t threads) {
  const auto start = Clock::now();
  std::atomic<int64_t> letters{0};
  int64_t rows = 0;
  const auto encode = [&](JsonValue& row) -> absl::StatusOr<MadeOfRow> {
    int64_t length = 0;
    for (const auto& [name, value] : row.members)
      length += static_cast<int64_t>(value.text.size() + value.items.size());
    letters += length;
    return nullptr;
  };
  const auto take = [&](const MadeOfRow&, const std::string&) -> absl::StatusOr<bool> {
    ++rows;
    return true;
  };
  DISTILL_RETURN_IF_ERROR(ForEachEncodedRow(path, "", {}, threads, encode, take));
  const double seconds = Since(start);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadableFile> file, OpenFile(path));
  std::printf("JSON {\"seconds\": %.4f, \"mb_s\": %.1f, \"rows\": %lld, \"checksum\": \"%lld\"}\n", seconds,
              static_cast<double>(file->size()) * 1e-6 / seconds, static_cast<long long>(rows),
              static_cast<long long>(letters.load()));
  return absl::OkStatus();
}

absl::Status MakeTokens(const std::string& path, const std::string& folder, const std::string& cache) {
  const auto start = Clock::now();
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(folder));
  DISTILL_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Create("chatml", tokenizer));
  const double before = ResidentMb("RssAnon:");
  ChatDatasetOptions options;
  options.num_threads = std::max(1U, std::thread::hardware_concurrency());
  options.keep_conversations = false;
  options.cache.folder = cache;
  DISTILL_ASSIGN_OR_RETURN(const ChatDataset data, LoadChatDataset(path, tokenizer, chat, options));
  const double seconds = Since(start);
  DISTILL_ASSIGN_OR_RETURN(const std::string fingerprint, data.tokens->Fingerprint());
  std::printf("JSON {\"seconds\": %.4f, \"private_mb\": %.1f, \"checksum\": \"%s\"}\n", seconds,
              ResidentMb("RssAnon:") - before, fingerprint.c_str());
  return absl::OkStatus();
}

// Which trials, drawn with replacement.
std::vector<int64_t> Drawn(int64_t count, int64_t size) {
  Random random(3, 1);
  std::vector<int64_t> drawn;
  for (int64_t i = 0; i < count; ++i) drawn.push_back(static_cast<int64_t>(random.Below(static_cast<uint64_t>(size))));
  return drawn;
}

absl::Status ReadTrials(const std::string& path, int64_t count, int64_t threads) {
  const auto start = Clock::now();
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Hdf5Trials> trials,
                           Hdf5Trials::Open({path}, {.datasets = {"input_features", "seq_class_ids"},
                                                     .attributes = {"sentence_label"},
                                                     .cache_blocks = 16}));
  const std::vector<int64_t> drawn = Drawn(count, trials->size());
  std::vector<double> sums(drawn.size(), 0);
  std::vector<absl::Status> failed(static_cast<size_t>(threads));
  std::atomic<size_t> next{0};
  const auto work = [&](absl::Status& status) {
    for (size_t i = next++; i < drawn.size(); i = next++) {
      const absl::StatusOr<Sample> sample = trials->Read(drawn[i]);
      if (!sample.ok()) {
        status = sample.status();
        return;
      }
      for (const float value : *sample->Get<float>("input_features")) sums[i] += value;
    }
  };
  std::vector<std::thread> workers;
  for (absl::Status& status : failed) workers.emplace_back(work, std::ref(status));
  for (std::thread& worker : workers) worker.join();
  for (const absl::Status& status : failed) DISTILL_RETURN_IF_ERROR(status);
  const double seconds = Since(start);
  double sum = 0;
  for (const double one : sums) sum += one;
  std::printf("JSON {\"seconds\": %.4f, \"trials_s\": %.2f, \"checksum\": \"%.3f\", \"drawn\": [", seconds,
              static_cast<double>(count) / seconds, sum);
  for (size_t i = 0; i < drawn.size(); ++i) std::printf("%s%lld", i == 0 ? "" : ", ", static_cast<long long>(drawn[i]));
  std::printf("]}\n");
  return absl::OkStatus();
}

// As large as asked for; nobody reads it.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  absl::StatusOr<int64_t> Length(int64_t) const override { return 1; }
  absl::StatusOr<Sample> Read(int64_t index) const override { return Sample{.id = index, .tensors = {}}; }
  absl::StatusOr<std::string> Fingerprint() const override { return "numbers"; }

 private:
  const int64_t size_;
};

absl::Status Shuffle(int64_t samples) {
  const double before = ResidentMb("RssAnon:");
  const auto start = Clock::now();
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder,
                           DataSharder::Create(std::make_shared<Numbers>(samples), 0, 1, {.rows_per_rank = 1024}));
  DISTILL_RETURN_IF_ERROR(sharder.NextStep().status());
  std::printf("JSON {\"seconds\": %.6f, \"private_mb\": %.2f}\n", Since(start), ResidentMb("RssAnon:") - before);
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments("How fast data sets are read");
  std::string path, tokenizer, cache;
  int64_t threads = 1, count = 64, samples = 1000000000;
  distill::Arguments rows = arguments.AddCommand("rows");
  distill::Arguments tokens = arguments.AddCommand("tokens");
  distill::Arguments trials = arguments.AddCommand("trials");
  distill::Arguments shuffle = arguments.AddCommand("shuffle");
  shuffle.Add("--samples", samples).Positive();
  for (distill::Arguments* command : {&rows, &tokens, &trials}) command->Add("file", path).Required();
  for (distill::Arguments* command : {&rows, &trials}) command->Add("--threads", threads).Positive();
  tokens.Add("--tokenizer", tokenizer).Required();
  tokens.Add("--cache", cache).Required();
  trials.Add("--count", count).Positive();
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  const absl::Status status = rows.asked()     ? distill::ReadRows(path, threads)
                              : tokens.asked() ? distill::MakeTokens(path, tokenizer, cache)
                              : trials.asked() ? distill::ReadTrials(path, count, threads)
                                               : distill::Shuffle(samples);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", status.ToString().c_str());
  return 1;
}
