// What ranks send each other in a step when they train a part of a model: gradients and values of that part alone.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/ranks.h"
#include "tests/train/sentences.h"

namespace distill {
namespace {

using testing::CountingCommunicator;
using testing::Expect;
using testing::Failures;
using testing::RunRanks;
using testing::Sentences;
using testing::Traffic;

using Patterns = std::vector<std::string>;

constexpr int kRanks = 2;
constexpr int64_t kPasses = testing::kRows / kRanks;  // a step, of each rank
constexpr int64_t kBucketBytes = 8000;                // several, none of them as small as Traffic::kSmall

struct Counted {
  std::map<CommOperation, int64_t> bytes;
  int64_t small_bytes = 0;

  Counted Minus(const Counted& other) const {
    Counted difference = *this;
    for (const auto& [operation, count] : other.bytes) difference.bytes[operation] -= count;
    std::erase_if(difference.bytes, [](const auto& item) { return item.second == 0; });
    difference.small_bytes -= other.small_bytes;
    return difference;
  }
};

absl::StatusOr<std::shared_ptr<Decoder>> Make(const Patterns& patterns) {
  auto model = std::make_shared<Decoder>(testing::Shape(/*is_tied=*/false), /*seed=*/42);
  DISTILL_RETURN_IF_ERROR(testing::ChoosePart(patterns, *model));
  return model;
}

// Of a whole run.
absl::StatusOr<Counted> Train(const World& world, const Patterns& patterns, int64_t stage, int64_t steps) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
  const auto traffic = std::make_shared<Traffic>();
  RunContext run(world, std::make_unique<CountingCommunicator>(std::move(comm), traffic), torch::kCPU);
  DISTILL_ASSIGN_OR_RETURN(const auto model, Make(patterns));
  DISTILL_ASSIGN_OR_RETURN(auto objective, LogitDistillation::CreateLive(nullptr, model, {.alpha = 0}));
  Sentences sentences(objective, world);
  TrainerOptions options = {
      .max_steps = steps, .logging_steps = 0, .save_steps = 0, .bucket_bytes = kBucketBytes, .zero_stage = stage};
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, model, options));
  DISTILL_RETURN_IF_ERROR(trainer->Fit(sentences).status());
  return Counted{traffic->bytes(), traffic->small_bytes()};
}

// Of two steps, without what a run sends when it begins and ends.
absl::StatusOr<Counted> OfTwoSteps(const World& world, const Patterns& patterns, int64_t stage) {
  DISTILL_ASSIGN_OR_RETURN(const Counted shorter, Train(world, patterns, stage, 3));
  DISTILL_ASSIGN_OR_RETURN(const Counted longer, Train(world, patterns, stage, 5));
  return longer.Minus(shorter);
}

int64_t PaddedBytes(const ShardPlan& plan) {
  int64_t elements = 0;
  for (size_t b = 0; b < plan.num_buckets(); ++b) elements += plan.padded(b);
  return elements * static_cast<int64_t>(sizeof(float));
}

// The last block that anything is trained of, which stays between a forward pass and its backward pass.
int64_t LastBlockBytes(const ShardPlan& plan, const std::vector<int64_t>& block_of) {
  const int64_t last = *std::max_element(block_of.begin(), block_of.end());
  int64_t elements = 0;
  for (size_t b = 0; b < plan.num_buckets(); ++b) {
    if (block_of[plan.members()[b][0]] == last) elements += plan.padded(b);
  }
  return elements * static_cast<int64_t>(sizeof(float));
}

// Of one step, by the trained parameters' sizes.
absl::StatusOr<std::map<CommOperation, int64_t>> Expected(const Patterns& patterns, int64_t stage) {
  DISTILL_ASSIGN_OR_RETURN(const auto model, Make(patterns));
  DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(*model, {}));
  int64_t trained = 0;
  for (const TrainedParameter& parameter : parameters) trained += static_cast<int64_t>(parameter.tensor.nbytes());
  if (stage == 0) return std::map<CommOperation, int64_t>{{CommOperation::kAllReduce, trained}};
  const std::vector<int64_t> block_of = stage == 3 ? BlocksOf(*model, parameters) : std::vector<int64_t>{};
  const ShardPlan plan = ShardedPlan(parameters, kRanks, kBucketBytes, block_of);
  const int64_t padded = PaddedBytes(plan);
  // Each parameter begins at a cache line, and so does each rank's slice of a bucket.
  DISTILL_RETURN_IF_ERROR(Expect(padded >= trained && padded < trained + 256 * static_cast<int64_t>(parameters.size()),
                                 absl::StrCat(padded, " bytes of buckets for ", trained)));
  const int64_t gathered = stage == 3 ? kPasses * (2 * padded - LastBlockBytes(plan, block_of)) : padded;
  return std::map<CommOperation, int64_t>{{CommOperation::kReduceScatter, (stage == 1 ? 1 : kPasses) * padded},
                                          {CommOperation::kAllGather, gathered}};
}

std::string Text(const std::map<CommOperation, int64_t>& bytes) {
  std::string text;
  for (const auto& [operation, count] : bytes) absl::StrAppend(&text, NameOf(operation), " ", count, " bytes; ");
  return text;
}

absl::Status Compare(const World& world, const Patterns& patterns, int64_t stage) {
  DISTILL_ASSIGN_OR_RETURN(auto expected, Expected(patterns, stage));
  for (auto& [operation, bytes] : expected) bytes *= 2;
  DISTILL_ASSIGN_OR_RETURN(const Counted sent, OfTwoSteps(world, patterns, stage));
  DISTILL_RETURN_IF_ERROR(Expect(sent.bytes == expected, absl::StrCat(Text(sent.bytes), "not ", Text(expected))));
  // Counts, losses and norms.
  return Expect(sent.small_bytes < 4096, absl::StrCat(sent.small_bytes, " bytes in small calls"));
}

TEST_CASE("a step sends the trained parameters' gradients and values, and nothing of what is frozen") {
  for (const Patterns& patterns : {Patterns{"model.layers.1.self_attn.q_proj", "model.layers.2.mlp.down_proj"},
                                   {"model.layers.0.mlp"},
                                   {"lora", "q_proj,down_proj"},
                                   {"model.layers"}}) {
    for (const int64_t stage : {0, 1, 2, 3}) {
      INFO(patterns[0] << ", stage " << stage);
      CHECK(Failures(RunRanks(kRanks, absl::Seconds(120),
                              [&](const World& world) { return Compare(world, patterns, stage); })) == "");
    }
  }
}

}  // namespace
}  // namespace distill
