#include "libdistill/plan/memory_kinds.h"
#include "libdistill/shard/model_blocks.h"

#include <algorithm>
#include <map>

#include "libdistill/comm/shm_group.h"
#include "libdistill/gradients/bucket_places.h"
#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/nn/decoder.h"

namespace distill {
namespace {

SharedOut ShareOut(const ShardPlan& plan, const std::vector<int64_t>& block_of) {
  SharedOut shared;
  std::map<int64_t, int64_t> blocks;
  for (size_t b = 0; b < plan.plan().buckets.size(); ++b) {
    const int64_t block = block_of[plan.plan().buckets[b][0]];
    if (block < 0) {
      shared.rest += plan.padded(b);
      continue;
    }
    shared.shares += plan.slice(b);
    blocks[block] += plan.padded(b);
  }
  for (const auto& [block, elements] : blocks) shared.gathered = std::max(shared.gathered, 2 * elements);
  return shared;
}

int64_t LargestOf(const std::vector<int64_t>& elements) { return *std::max_element(elements.begin(), elements.end()); }

}  // namespace

MemoryKinds::MemoryKinds(const MemoryPlanTask& task, const std::vector<TrainedParameter>& parameters,
                         const std::vector<int64_t>& block_of)
    : stage(task.world_size > 1 ? task.zero_stage : 0),
      shards(stage > 0 ? task.world_size : 1),
      element_bytes(static_cast<int64_t>(torch::elementSize(task.dtype))),
      narrow(element_bytes < kFloatBytes),
      task_(task),
      elements_(ElementsOf(parameters)),
      plan_(ShardedPlan(parameters, shards, task.bucket_bytes, block_of)) {
  if (!block_of.empty()) shared = ShareOut(plan_, block_of);
  for (size_t i = 0; i < elements_.size(); ++i) {
    all += elements_[i];
    own += plan_.OfParameter(i, 0).count;  // the first rank's are never fewer than another's
  }
  head = task.student.vocab_size * task.student.hidden_size;
  largest = LargestOf(elements_);
  if (task.teacher.has_value()) CountTeacher();
}

void MemoryKinds::CountTeacher() {
  const auto shapes = DecoderShapes(*task_.teacher, torch::kFloat32);
  std::vector<int64_t> elements;
  for (const torch::Tensor& tensor : shapes->parameters()) elements.push_back(tensor.numel());
  for (const int64_t count : elements) teacher.rest += count;
  shares_teacher = task_.shard_teacher && task_.world_size > 1;
  const auto parameters = CollectParameters(*shapes, {});
  if (!shares_teacher || !parameters.ok()) return;
  const std::vector<int64_t> block_of = BlocksOf(*shapes, *parameters);
  teacher = ShareOut(ShardedPlan(*parameters, task_.world_size, task_.bucket_bytes, block_of), block_of);
  largest_of_teacher = LargestOf(elements);
}

LossShape MemoryKinds::Loss() const {
  LossShape shape{.tokens = task_.rows * task_.length,
                  .chunk_tokens = task_.chunk_tokens,
                  .vocabulary = task_.student.vocab_size,
                  .student_rows = task_.student.vocab_size,
                  .student_hidden = task_.student.hidden_size,
                  .element_bytes = element_bytes,
                  .is_lent = stage < 2 && task_.accumulation_steps == 1};
  if (task_.teacher.has_value()) {
    shape.teacher_hidden = task_.teacher->hidden_size;
    shape.vocabulary = std::min(shape.vocabulary, task_.teacher->vocab_size);
  }
  return shape;
}

int64_t MemoryKinds::Weights() const {
  if (stage == 3) return (shared.rest + shared.shares) * element_bytes;
  return (stage > 0 ? PlacesInARow(plan_).elements : all) * element_bytes;
}

int64_t MemoryKinds::Gradients() const {
  if (stage < 2) return RoomForAnyPlan(elements_, shards) * kFloatBytes;
  int64_t slices = 0;
  for (size_t b = 0; b < plan_.plan().buckets.size(); ++b) slices += plan_.slice(b);
  return (PlacesInTurn(plan_).elements + slices) * kFloatBytes;
}

int64_t MemoryKinds::Wire() const {
  if (task_.gradient_compression == "none" || task_.world_size == 1) return 0;
  int64_t largest = 0;
  for (size_t b = 0; b < plan_.plan().buckets.size(); ++b) largest = std::max(largest, plan_.padded(b));
  return 2 * largest;
}

// Of the run's communicator, and of one for each model that is shared out.
int64_t MemoryKinds::Segments() const {
  const int64_t communicators = 1 + (stage == 3 ? 1 : 0) + (shares_teacher ? 1 : 0);
  return communicators * static_cast<int64_t>(ShmGroup::SegmentBytes(task_.ranks_per_host));
}

// Of weights what collectives write: shares of blocks are in memory of their own.
int64_t MemoryKinds::InSharedMemory() const {
  int64_t slices = 0;
  for (size_t b = 0; stage >= 2 && b < plan_.plan().buckets.size(); ++b) slices += plan_.slice(b);
  const int64_t whole = stage > 0 ? Weights() : 0;
  const int64_t student = stage == 3 ? (shared.rest + shared.gathered) * element_bytes : whole;
  const int64_t of_teacher = shares_teacher ? teacher.gathered * element_bytes : 0;
  return Segments() + Gradients() - slices * kFloatBytes + Wire() + student + of_teacher;
}

// glibc gives blocks of 32 MiB and more (M_MMAP_THRESHOLD's maximum, mallopt(3)) back to the system one by one; those
// below come out of a heap, where a hole is of no use to a larger block. docs/performance.md has what is measured.
int64_t MemoryKinds::Holes() const {
  constexpr int64_t kOfTheirOwn = 32 << 20;
  const int64_t tokens = task_.rows * task_.length;
  const LossShape loss = Loss();
  int64_t largest = 0;
  for (const int64_t block :
       {head * kFloatBytes, head * element_bytes, ChunkTokens(loss) * loss.vocabulary * element_bytes,
        tokens * task_.student.intermediate_size * element_bytes,
        task_.student.intermediate_size * task_.student.hidden_size * element_bytes}) {
    if (block < kOfTheirOwn) largest = std::max(largest, block);
  }
  return largest;
}

// In stage 2, of gradients that are not in a place: of the parameters of one bucket that is being filled, and of a
// bucket that has memory of its own as long as it is summed.
int64_t MemoryKinds::Waiting() const {
  if (stage < 2) return 0;
  int64_t waiting = 0;
  const BucketPlaces places = PlacesInTurn(plan_);
  for (size_t b = 0; b < plan_.plan().buckets.size(); ++b) {
    if (places.begin[b] != kNoPlace) waiting = std::max(waiting, plan_.elements(b) * element_bytes);
  }
  return waiting;
}

int64_t MemoryKinds::OwnBucket() const {
  if (stage < 2) return 0;
  int64_t largest = 0;
  const BucketPlaces places = PlacesInTurn(plan_);
  for (size_t b = 0; b < plan_.plan().buckets.size(); ++b) {
    const bool is_gradient = !narrow && plan_.plan().buckets[b].size() == 1 && plan_.padded(b) == plan_.elements(b);
    if (places.begin[b] == kNoPlace && !is_gradient) largest = std::max(largest, plan_.padded(b) * kFloatBytes);
  }
  return largest;
}

}  // namespace distill
