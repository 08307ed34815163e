// A rank that is killed while rank 0 fetches a block of a sharded model for a checkpoint: by libfabric's own function
// for sending, when it hands over its share.
#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <filesystem>
#include <new>

#include "absl/strings/match.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/task/distiller.h"
#include "libdistill/train/trainer.h"
#include "tests/comm/watch_fabric.h"
#include "tests/shard/meet.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"
#include "tests/train/tiny_llama.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

constexpr size_t kShareBytes = 4096;  // requests are smaller, a rank's share of a block is larger

// Whether the block of the second checkpoint is on its way: of all ranks of a test.
std::atomic<bool>* fetching = nullptr;

// In the rank that is to be lost.
struct LastSend {
  static inline fi_ops_tagged ops, real_ops;

  static void Watch(fid_ep& endpoint) {
    real_ops = ops = *endpoint.tagged;
    ops.send = &Send;
    endpoint.tagged = &ops;
  }

  static ssize_t Send(fid_ep* endpoint, const void* data, size_t bytes, void* descriptor, fi_addr_t peer, uint64_t tag,
                      void* context) {
    if (fetching->load() && bytes >= kShareBytes) raise(SIGKILL);
    return real_ops.send(endpoint, data, bytes, descriptor, peer, tag, context);
  }
};

// Tells when it is saved for the second time.
class Student : public Decoder {
 public:
  explicit Student(const DecoderConfig& config) : Decoder(config, /*seed=*/3) {}
  absl::Status Save(const std::string& folder, const std::string& tokenizer_folder, torch::Dtype dtype) const override {
    if (++saves_ == 2) fetching->store(true);
    return Decoder::Save(folder, tokenizer_folder, dtype);
  }

 private:
  mutable int saves_ = 0;
};

absl::Status Train(const World& world, TrainerOptions options) {
  DISTILL_ASSIGN_OR_RETURN(const auto run, testing::Meet(world, {.backend = BackendPreference::kFabric,
                                                                 .timeout = absl::Seconds(60),
                                                                 .heartbeat_timeout = absl::Seconds(5)}));
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, testing::TinyLlama(/*layers=*/3, /*intermediate=*/128));
  const auto student = std::make_shared<Student>(config);
  const auto data = MakeTokenDataset({{{1, 2, 3, 4}, {0, 1, 1, 1}}, {{5, 6, 7, 8}, {0, 1, 1, 1}}});
  DISTILL_ASSIGN_OR_RETURN(auto batches, TokenBatches::Create(data, run->rank(), run->world_size(), {}));
  options.logging_steps = 0;
  options.save_steps = 1;
  options.zero_stage = 3;
  DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(*run, student, options));
  DISTILL_ASSIGN_OR_RETURN(auto task, Distiller::Create(nullptr, student, std::move(batches), {.alpha = 0}));
  return trainer->Fit(*task).status();
}

TEST_CASE(
    "a rank that is lost while a block is fetched for a checkpoint is named to all; one resumes from the one before") {
  void* const page = mmap(nullptr, sizeof(*fetching), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  fetching = new (page) std::atomic<bool>(false);
  const testing::TempFolder output;
  const auto outcomes = RunRanks(3, absl::Seconds(120), [&](const World& world) -> absl::Status {
    if (world.rank == 1) {
      DISTILL_RETURN_IF_ERROR(testing::WatchedFabric::Watch({.on_endpoint = &LastSend::Watch}));
    }
    const absl::Status lost = Train(world, {.output_dir = output.path(), .max_steps = 3});
    // What the others were in: the request may have come to the lost rank before it came to all.
    const std::string text(lost.message());
    DISTILL_RETURN_IF_ERROR(
        Expect(absl::StrContains(text, "all-gather number") || absl::StrContains(text, "broadcast number"),
               "no operation: " + text));
    return ExpectError(lost, absl::StatusCode::kUnavailable,
                       {"the checkpoint of step 2", "(step 3)", "rank 1 on " + world.host});
  });
  CHECK(fetching->load());
  CHECK(outcomes[1].signal == SIGKILL);
  for (const int survivor : {0, 2}) {
    INFO(outcomes[survivor].status);
    CHECK(outcomes[survivor].status.ok());
  }
  CHECK_FALSE(fs::exists(output.path() + "/checkpoint-2"));
  CHECK_FALSE(fs::exists(output.path() + "/.checkpoint-2.tmp"));
  fetching->store(false);
  CHECK(Failures(RunRanks(2, absl::Seconds(120), [&](const World& world) {
          return Train(world, {.output_dir = output.path(), .max_steps = 2, .resume_from_checkpoint = "latest"});
        })) == "");
  CHECK(fs::exists(output.path() + "/checkpoint-2"));
  munmap(page, sizeof(*fetching));
}

}  // namespace
}  // namespace distill
