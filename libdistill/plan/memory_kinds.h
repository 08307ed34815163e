// What each kind of a rank's memory takes in a training run, in elements and bytes, out of shapes; memory_plan.cc
// says which of them are there at what moment.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/loss/loss_memory.h"
#include "libdistill/plan/memory_plan.h"

namespace distill {

constexpr int64_t kFloatBytes = sizeof(float);

// Elements of a model whose blocks' weights are sharded (sharded_blocks.h).
struct ShardedElements {
  int64_t rest = 0;      // of no block: whole
  int64_t shares = 0;    // a rank's, of all blocks
  int64_t gathered = 0;  // the two slots that blocks use in rotation
  int64_t sum() const { return rest + shares + gathered; }
};

class MemoryKinds {
 public:
  // `task` must outlive it.
  explicit MemoryKinds(const MemoryPlanTask& task);

  // Of a micro-batch's loss, where it is one over a head's products. Memory for the head's gradient is borrowed where
  // gradients have places of their own.
  LossShape Loss() const;
  // Bytes.
  int64_t Weights() const;         // the student's in use, but for gathered blocks and what is frozen
  int64_t Gradients() const;       // their buckets, and this rank's slices
  int64_t Wire() const;            // of gradients that travel in another type, and of their norm on GPUs
  int64_t Segments() const;        // of the communicators, in shared memory
  int64_t Lanes() const;           // of the communicators, for what goes between hosts in two levels
  int64_t InSharedMemory() const;  // of all of these
  int64_t Holes() const;           // of the heap
  int64_t Waiting() const;         // of gradients that are in no bucket yet
  int64_t OwnBucket() const;       // of the largest bucket with memory of its own

  const int stage, shards;       // 0 and 1 where one rank has nobody to share with
  const int64_t element_bytes;   // of the working weights
  const bool narrow;             // float32 masters beside them
  const ProductScratch scratch;  // of products on CPUs
  int64_t all = 0, own = 0;      // elements that are trained, and those of which a rank keeps the optimizer's state
  int64_t frozen = 0;            // the student's other elements
  int64_t head = 0;              // elements of the head; 0: the model's loss takes its outputs whole
  int64_t largest = 0, largest_of_teacher = 0;  // elements of one weight
  ShardedElements shared;                       // the student, in stage 3
  ShardedElements teacher;                      // all in `rest` where it is not sharded
  bool shards_teacher = false;
  int64_t slice_of_teacher = 0;  // elements that a rank has of a bucket of its sharded weights, at most

 private:
  void CountTeacher();

  const MemoryPlanTask& task_;
  const std::vector<int64_t> elements_;
  const ShardPlan plan_;
};

}  // namespace distill
