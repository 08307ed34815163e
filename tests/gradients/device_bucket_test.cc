// How buckets in a GPU's memory are summed, with memory of the CPU in the GPU's place: torch's kernels work on any
// device.
#include "libdistill/gradients/device_bucket.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_wire.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;

constexpr int64_t kElements = 300'001;

// Torch's own for the CPU, which notes the largest block that it was asked for.
class WatchedAllocator : public c10::Allocator {
 public:
  explicit WatchedAllocator(c10::Allocator* torchs) : torchs_(torchs) {}
  c10::DataPtr allocate(size_t bytes) override {
    largest = std::max(largest.load(), bytes);
    return torchs_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return torchs_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  std::atomic<size_t> largest{0};

 private:
  c10::Allocator* const torchs_;
};

void Fill(GradientBucket& bucket, int rank, uint64_t pass) {
  Random random(static_cast<uint64_t>(rank), pass);
  bucket.padded.zero_();
  auto* values = bucket.values.data_ptr<float>();
  for (int64_t i = 0; i < bucket.values.numel(); ++i) values[i] = static_cast<float>(random.Uniform() - 0.5);
}

// Two passes of one step, the second added to the first where the stage has memory for that.
struct Sums {
  torch::Tensor mine;
  double squares = 0;
};
absl::StatusOr<Sums> SumTwice(GradientBucket& bucket, int rank, bool adds,
                              const std::function<absl::StatusOr<double>(bool adds)>& sum) {
  Sums sums;
  for (const bool second : {false, true}) {
    Fill(bucket, rank, second ? 1 : 0);
    DISTILL_ASSIGN_OR_RETURN(sums.squares, sum(second && adds));
  }
  sums.mine = bucket.mine.clone();
  return sums;
}

// As on the host, to the last bit, and without memory as large as the bucket.
absl::Status CompareWithHost(const World& world, int stage, bool bf16) {
  DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
  const std::vector<TrainedParameter> parameters = {{.name = "weight", .tensor = torch::zeros({kElements})}};
  const ShardPlan plan =
      stage == 0 ? PlanInOrder(parameters, {}, 25 << 20) : ShardedPlan(parameters, comm->world_size(), 25 << 20, {});
  DISTILL_ASSIGN_OR_RETURN(GradientBuckets buckets, GradientBuckets::Create(*comm, parameters, plan, stage));
  GradientBucket& bucket = buckets.bucket(0);
  if (!bucket.has_place) buckets.GiveMemory(0, torch::Tensor());
  GradientWire wire(bf16);
  DISTILL_RETURN_IF_ERROR(wire.Prepare(*comm, c10::kCPU, plan));
  const auto on_host = [&](bool adds) -> absl::StatusOr<double> {
    DISTILL_RETURN_IF_ERROR(wire.Sum(*comm, bucket, adds));
    return bucket.sum_of_squares;
  };
  DISTILL_ASSIGN_OR_RETURN(const Sums expected, SumTwice(bucket, world.rank, stage >= 2, on_host));

  torch::Tensor rounded;
  if (bf16) rounded = torch::empty({GradientWire::RoundedElements(plan) + 3}, torch::kBFloat16);
  DeviceSquares squares;
  c10::Allocator* const torchs = c10::GetCPUAllocator();
  WatchedAllocator watched(torchs);
  const auto as_on_device = [&](bool adds) -> absl::StatusOr<double> {
    c10::SetCPUAllocator(&watched, /*priority=*/255);
    absl::StatusOr<double> sum = SumDeviceBucket(*comm, bucket, adds, rounded, squares);
    c10::SetCPUAllocator(torchs, /*priority=*/255);
    return sum;
  };
  absl::StatusOr<Sums> got = SumTwice(bucket, world.rank, stage >= 2, as_on_device);
  DISTILL_RETURN_IF_ERROR(got.status());
  DISTILL_RETURN_IF_ERROR(Expect(torch::equal(got->mine, expected.mine), "other sums than on the host"));
  if (bucket.is_sharded()) {
    DISTILL_RETURN_IF_ERROR(comm->AllReduce(&got->squares, &got->squares, 1, DType::kFloat64, ReduceOp::kSum));
  }
  DISTILL_RETURN_IF_ERROR(Expect(got->squares == Approx(expected.squares).epsilon(1e-6),
                                 absl::StrCat(got->squares, " and not ", expected.squares)));
  return Expect(static_cast<int64_t>(watched.largest) < kElements / 16,
                absl::StrCat("a block of ", watched.largest.load(), " bytes"));
}

}  // namespace

TEST_CASE("a bucket on a device is summed to the host's bits, in memory that is there") {
  for (const int stage : {0, 1, 2}) {
    for (const bool bf16 : {false, true}) {
      CAPTURE(stage, bf16);
      CHECK(Failures(RunRanks(2, absl::Seconds(60),
                              [&](const World& world) { return CompareWithHost(world, stage, bf16); })) == "");
    }
  }
}

}  // namespace distill
