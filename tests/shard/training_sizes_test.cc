// The sizes that an error of memory names are those that training allocates.
#include "libdistill/shard/training_sizes.h"

#include <set>

#include <torch/nn/modules/linear.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/nn/weight_gate.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/shard/trained_module.h"
#include "libdistill/tensor/unbacked.h"
#include "tests/shard/meet.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill::training_sizes {
namespace {

// Layers of odd sizes, of which three are blocks, one weight that is not trained, and a buffer.
struct Net : torch::nn::Module, GatedModel {
  Net() {
    register_module("first", torch::nn::Linear(37, 101));
    register_module("second", torch::nn::Linear(101, 53));
    for (const int64_t width : {53, 71, 29}) blocks.push_back(torch::nn::Linear(53, width));
    for (size_t i = 0; i < blocks.size(); ++i) register_module(absl::StrCat("block", i), blocks[i]);
    register_parameter("frozen", torch::zeros({11}), /*requires_grad=*/false);
    register_buffer("mean", torch::zeros({7}));
  }
  std::vector<std::vector<torch::Tensor>> BlockWeights() const override {
    std::vector<std::vector<torch::Tensor>> weights;
    for (const torch::nn::Linear& block : blocks) weights.push_back({block->weight, block->bias});
    return weights;
  }
  std::vector<torch::nn::Linear> blocks;
};

std::vector<torch::Tensor> TrainedOf(const Net& net) {
  std::vector<torch::Tensor> trained;
  for (const torch::Tensor& weight : net.parameters()) {
    if (weight.requires_grad()) trained.push_back(weight);
  }
  return trained;
}

int64_t BytesOfStorages(const std::vector<torch::Tensor>& tensors) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) {
    if (!tensor.defined() || !seen.insert(tensor.storage().unsafeGetStorageImpl()).second) continue;
    bytes += static_cast<int64_t>(tensor.storage().nbytes());
  }
  return bytes;
}

const void* StorageOf(const torch::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

// Weights of blocks that are away lie in storages of no memory.
int64_t WeightsInUse(const TrainedModule& trained, const Net& net) {
  std::vector<torch::Tensor> whole;
  for (const torch::Tensor& weight : net.parameters()) {
    if (weight.requires_grad() && HasMemory(weight)) whole.push_back(weight);
  }
  return BytesOfStorages(whole) + (trained.blocks() != nullptr ? trained.blocks()->held_bytes() : 0);
}

TrainingSizes Allocated(TrainedModule& trained, const Net& net) {
  TrainingSizes sizes{.weights = WeightsInUse(trained, net)};
  std::set<const void*> in_use;
  const std::vector<torch::Tensor> parameters = TrainedOf(net);
  for (size_t i = 0; i < parameters.size(); ++i) {
    in_use.insert(StorageOf(trained.flat() != nullptr ? trained.flat()->part(i) : parameters[i]));
  }
  for (const auto& [name, tensor] : trained.optimizer().State()) {
    const int64_t bytes = tensor.mine.numel() * static_cast<int64_t>(sizeof(float));
    if (absl::StartsWith(name, "exp_avg")) sizes.moments += bytes;
    const bool is_apart = in_use.count(StorageOf(tensor.mine)) == 0;
    if (absl::StartsWith(name, "master.") && is_apart) sizes.masters += bytes;
  }
  std::vector<torch::Tensor> gradients;
  const GradientBuckets& buckets = trained.reducer().buckets();
  for (size_t b = 0; b < buckets.num_buckets(); ++b) {
    gradients.push_back(buckets.bucket(b).padded);
    gradients.push_back(buckets.bucket(b).mine);
  }
  sizes.gradients = BytesOfStorages(gradients);
  return sizes;
}

absl::Status Compare(const World& world, int stage, torch::Dtype dtype) {
  DISTILL_ASSIGN_OR_RETURN(const auto run, testing::Meet(world, {.backend = BackendPreference::kShm}));
  const auto net = std::make_shared<Net>();
  TrainedModule trained(run->communicator(), net, {.dtype = dtype, .zero_stage = stage});
  DISTILL_RETURN_IF_ERROR(trained.FindParameters({}));
  DISTILL_ASSIGN_OR_RETURN(const auto parameters, CollectParameters(*net, {}));
  TrainingShape shape{.dtype = dtype, .zero_stage = stage, .world_size = world.world_size};
  if (stage == 3) shape.block_of = BlocksOf(*net, parameters);
  const TrainingSizes sizes = SizesOfTraining(*net, parameters, shape);
  DISTILL_RETURN_IF_ERROR(trained.MakeOptimizer());
  DISTILL_RETURN_IF_ERROR(trained.MakeReducer({}, /*losses_are_final=*/false));
  const TrainingSizes found = Allocated(trained, *net);
  const auto text = [](const TrainingSizes& of) {
    return absl::StrCat(of.weights, " ", of.masters, " ", of.moments, " ", of.gradients);
  };
  if (world.rank != 0) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(testing::Expect(sizes.untrained == (11 + 7) * 4, absl::StrCat(sizes.untrained)));
  return testing::Expect(text(sizes) == text(found), absl::StrCat(text(sizes), ", allocated ", text(found)));
}

TEST_CASE("sizes by kind are known before they are allocated, in every stage and type") {
  for (const int ranks : {1, 2, 3}) {
    for (const int stage : {0, 1, 2, 3}) {
      if (ranks == 1 && stage > 0) continue;
      for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
        INFO(ranks << " ranks, stage " << stage << ", " << c10::toString(dtype));
        CHECK(testing::Failures(testing::RunRanks(
                  ranks, absl::Seconds(60), [&](const World& world) { return Compare(world, stage, dtype); })) == "");
      }
    }
  }
}

TEST_CASE("an error of memory gets sizes and what to lower, once; other errors stay as they are") {
  const TrainingSizes sizes{.weights = int64_t{1} << 30,
                            .moments = int64_t{2} << 30,
                            .gradients = int64_t{1} << 30,
                            .besides = {{"teacher's weights", int64_t{1} << 29}, {"training data", 100}}};
  const TrainingShape shape{.zero_stage = 1, .world_size = 8};
  const absl::Status failed = absl::ResourceExhaustedError("out of host memory: start fewer ranks");
  const absl::Status told =
      WithTrainingSizes(failed, sizes, shape, {{"micro-batch 1 of 2", int64_t{6} << 30, int64_t{9} << 30}});
  CHECK(told.code() == absl::StatusCode::kResourceExhausted);
  for (const char* part :
       {"out of host memory: start fewer ranks\nmemory of rank 0, by kind, in micro-batch 1 of 2:",
        "    1.000 GiB  weights                float32\n",
        "    2.000 GiB  optimizer's moments    2 x float32, this rank's 1/8\n", "    0.500 GiB  teacher's weights\n",
        "    1.500 GiB  all else in use ", "    3.000 GiB  activations ", "per_device_train_batch_size", "max_length",
        "gradient_checkpointing: true", "bf16: true",
        "zero_stage: 2, which divides the optimizer's state and gradients by 8"}) {
    INFO(told.message() << "\nlacks " << part);
    CHECK(absl::StrContains(told.message(), part));
  }
  CHECK_FALSE(absl::StrContains(told.message(), "masters"));
  CHECK_FALSE(absl::StrContains(told.message(), "training data"));  // 0.000 GiB
  CHECK(WithTrainingSizes(told, sizes, shape, {}) == told);
  const TrainingShape narrow{.dtype = torch::kBFloat16, .zero_stage = 3, .world_size = 8};
  const absl::Status of_gpu = absl::ResourceExhaustedError("CUDA out of memory. Tried to allocate 2 GiB");
  const absl::Status narrow_told = WithTrainingSizes(of_gpu, sizes, narrow, {});
  CHECK(absl::StrContains(narrow_told.message(), "by kind:"));
  CHECK_FALSE(absl::StrContains(narrow_told.message(), "bf16"));
  CHECK_FALSE(absl::StrContains(narrow_told.message(), "zero_stage"));
  for (const absl::Status& other : {absl::ResourceExhaustedError("cannot write x: No space left on device"),
                                    absl::InternalError("out of host memory"), absl::OkStatus()}) {
    CHECK(WithTrainingSizes(other, sizes, shape, {}) == other);
  }
}

}  // namespace
}  // namespace distill::training_sizes
