#include "libdistill/plan/memory_kinds.h"

#include <algorithm>
#include <numeric>

#include "libdistill/comm/lane_blocks.h"
#include "libdistill/comm/shm_group.h"
#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/gradients/gradient_staging.h"
#include "libdistill/gradients/gradient_wire.h"
#include "libdistill/shard/flat_parameters.h"
#include "libdistill/shard/sharded_blocks.h"
#include "libdistill/shard/sharded_models.h"

namespace distill {

// In stage 3.
static std::vector<int64_t> SharedBlocks(const MemoryPlanTask& task, int stage) {
  return stage == 3 ? task.student.block_of : std::vector<int64_t>();
}

static int64_t LargestSlice(const ShardPlan& plan) {
  int64_t largest = 0;
  for (size_t b = 0; b < plan.num_buckets(); ++b) largest = std::max(largest, plan.slice(b));
  return largest;
}

MemoryKinds::MemoryKinds(const MemoryPlanTask& task)
    : stage(task.world_size > 1 ? task.zero_stage : 0),
      shards(stage > 0 ? task.world_size : 1),
      element_bytes(static_cast<int64_t>(torch::elementSize(task.dtype))),
      narrow(element_bytes < kFloatBytes),
      scratch(task.on_gpu ? nullptr : ScratchOnCpu(task.dtype)),
      task_(task),
      elements_(ElementsOf(task.student.parameters)),
      plan_(ShardedPlan(task.student.parameters, shards, task.bucket_bytes, SharedBlocks(task, stage))) {
  if (stage == 3) {
    const ShardedBlocks::Sizes blocks = ShardedBlocks::SizesOf(plan_, task.student.block_of);
    shared = {FlatParameters::Elements(plan_, task.student.block_of), blocks.shares, blocks.places};
  }
  for (size_t i = 0; i < elements_.size(); ++i) {
    all += elements_[i];
    own += plan_.OfParameter(i, 0).count;  // the first rank's are never fewer than another's
  }
  frozen = task.student.frozen_elements();
  head = task.student.vocabulary * task.student.hidden;
  largest = *std::max_element(elements_.begin(), elements_.end());
  if (task.teacher.has_value()) CountTeacher();
}

void MemoryKinds::CountTeacher() {
  const PlannedModel& model = *task_.teacher;
  teacher.rest = model.elements();
  shards_teacher = task_.shard_teacher && task_.world_size > 1;
  if (!shards_teacher) return;
  std::vector<int64_t> elements, block_of;  // of the weights of blocks
  for (size_t block = 0; block < model.blocks.size(); ++block) {
    elements.insert(elements.end(), model.blocks[block].begin(), model.blocks[block].end());
    block_of.resize(elements.size(), static_cast<int64_t>(block));
  }
  const ShardPlan plan = PlanOfFrozen(elements, block_of, task_.world_size);
  const ShardedBlocks::Sizes blocks = ShardedBlocks::SizesOf(plan, block_of);
  slice_of_teacher = LargestSlice(plan);
  teacher = {teacher.rest - std::accumulate(elements.begin(), elements.end(), int64_t{0}), blocks.shares,
             blocks.places};
  for (const int64_t weight : ElementsOf(model.parameters)) {
    largest_of_teacher = std::max(largest_of_teacher, weight);
  }
}

LossShape MemoryKinds::Loss() const {
  LossShape shape{.tokens = task_.rows * task_.length,
                  .chunk_tokens = task_.chunk_tokens,
                  .vocabulary = task_.student.vocabulary,
                  .student_rows = task_.student.vocabulary,
                  .student_hidden = task_.student.hidden,
                  .element_bytes = element_bytes,
                  .trains_head = task_.student.trains_head,
                  .on_gpu = task_.on_gpu,
                  .has_wide_products = task_.has_wide_products,
                  .device_bytes = task_.device_bytes,
                  .is_borrowed = stage < 2 && (task_.losses_are_final || task_.accumulation_steps == 1),
                  .scratch = scratch};
  if (task_.teacher.has_value()) {
    shape.teacher_hidden = task_.teacher->hidden;
    shape.vocabulary = std::min(shape.vocabulary, task_.teacher->vocabulary);
  }
  return shape;
}

int64_t MemoryKinds::Weights() const {
  if (stage == 3) return (shared.rest + shared.shares) * element_bytes;
  return (stage > 0 ? FlatParameters::Elements(plan_, {}) : all) * element_bytes;
}

int64_t MemoryKinds::Gradients() const {
  const GradientSizes sizes = SizesOfGradients(elements_, plan_, stage);
  return (sizes.buckets + sizes.slices) * kFloatBytes;
}

int64_t MemoryKinds::Wire() const {
  const int64_t squares = task_.on_gpu ? DeviceSquares::kBytes : 0;
  if (task_.gradient_compression == GradientCompression::kNone || task_.world_size == 1) return squares;
  return squares + GradientWire::RoundedElements(plan_) * static_cast<int64_t>(torch::elementSize(torch::kBFloat16));
}

// Of the run's communicator, and of one for each model that is sharded.
int64_t MemoryKinds::Segments() const {
  const int64_t communicators = 1 + (stage == 3 ? 1 : 0) + (shards_teacher ? 1 : 0);
  return communicators * static_cast<int64_t>(ShmGroup::SegmentBytes(task_.ranks_per_host));
}

// Each communicator has its own: the run's, for gradients and weights, and those of the sharded models.
int64_t MemoryKinds::Lanes() const {
  const int ranks = task_.ranks_per_host, hosts = task_.world_size / ranks;
  if (hosts < 2 || (ranks < 2 && !task_.on_gpu)) return 0;
  const auto of = [&](int64_t slice, int64_t size) -> int64_t {
    if (slice == 0) return 0;
    return task_.on_gpu ? LaneScratchBytes(hosts, ranks, /*reduced=*/0, slice, size)
                        : BlockScratchBytes(hosts, ranks, slice, size, /*on_device=*/false);
  };
  const int64_t slice = LargestSlice(plan_);
  const int64_t buckets =
      stage == 0 && task_.on_gpu ? LaneScratchBytes(hosts, ranks, slice, /*block=*/0, kFloatBytes) : 0;
  return buckets + (stage > 0 ? of(slice, kFloatBytes) : 0) + (stage == 3 ? of(slice, element_bytes) : 0) +
         of(slice_of_teacher, element_bytes);
}

// Of weights what collectives write: shares of blocks are in memory of their own.
int64_t MemoryKinds::InSharedMemory() const {
  const int64_t gradients = SizesOfGradients(elements_, plan_, stage).buckets * kFloatBytes;
  const int64_t whole = stage > 0 ? Weights() : 0;
  const int64_t student = stage == 3 ? (shared.rest + shared.gathered) * element_bytes : whole;
  const int64_t of_teacher = shards_teacher ? teacher.gathered * element_bytes : 0;
  return Segments() + gradients + Wire() + student + of_teacher;
}

// glibc gives blocks of 32 MiB and more (M_MMAP_THRESHOLD's maximum, mallopt(3)) back to the system one by one; those
// below come out of a heap, where a hole is of no use to a larger block. docs/measurements.md has what is measured.
int64_t MemoryKinds::Holes() const {
  constexpr int64_t kOfTheirOwn = 32 << 20;
  const int64_t tokens = task_.rows * task_.length;
  const PlannedModel& student = task_.student;
  const int64_t chunk = head > 0 ? ChunkTokens(Loss()) * Loss().vocabulary : 0;
  const int64_t table = head > 0 ? head : student.last_gradient;
  int64_t largest = 0;
  for (const int64_t block :
       {table * kFloatBytes, table * element_bytes, chunk * element_bytes, tokens * student.widest * element_bytes,
        student.widest * student.hidden * element_bytes}) {
    if (block < kOfTheirOwn) largest = std::max(largest, block);
  }
  return largest;
}

int64_t MemoryKinds::Waiting() const { return stage < 2 ? 0 : WaitingElements(plan_) * element_bytes; }

int64_t MemoryKinds::OwnBucket() const {
  if (stage < 2) return 0;
  int64_t largest = 0;
  const BucketPlaces places = PlacesInSlots(plan_);
  for (size_t b = 0; b < places.begin.size(); ++b) {
    if (places.begin[b] == kNoPlace) largest = std::max(largest, SizeOfOwnMemory(plan_, b, task_.dtype));
  }
  return largest * kFloatBytes;
}

}  // namespace distill
