// The memory that a rank of a training run needs, by kind, out of shapes alone: nothing is loaded, nothing runs,
// and the job may be larger than this machine.
//
//   MemoryPlanTask task{.student = Planned(config), .rows = 8, .length = 512};
//   DISTILL_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(task));
//   std::puts(DescribePlan(task, plan, available).c_str());
//
// Memory is what the metric "peak_memory_gib" then says (tensor/peak_memory.h): on CPUs resident pages without those
// that are mapped from other ranks, on GPUs what torch allocates.
//
// What lies in memory changes within a step, so a plan looks at the moments at which it may be most, and keeps the one
// at which it is: while a chunk's logits are there; when the backward pass is at the last block, with all activations
// still kept; at its end, at the embedding; in the teacher's pass; when models are loaded and sharded. A
// checkpoint is written piece by piece (ordered_save.h), in less memory than the loss takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/gradients/compression.h"
#include "libdistill/plan/planned_model.h"
#include "libdistill/tensor/peak_memory.h"

namespace distill {

struct MemoryPlanTask {
  PlannedModel student = {};
  std::optional<PlannedModel> teacher = {};
  torch::Dtype dtype = torch::kFloat32;  // of the working weights: float32, bfloat16 or float16
  bool gradient_checkpointing = false;
  bool dropout = false;               // LoadOptions::dropout, of the student
  bool keeps_teacher_states = false;  // until the backward pass: a loss of the states (CosineLoss)
  bool losses_are_final = true;       // Task::losses_are_final; where the loss is one over a head's products
  int zero_stage = 0;
  bool shard_teacher = false;
  GradientCompression gradient_compression = GradientCompression::kNone;
  int64_t bucket_bytes = 25 << 20;
  int64_t chunk_tokens = 0;  // of the loss; 0: chosen as it is in a run
  // Of a micro-batch; every row is taken as full, and the loss as taken at all of its tokens.
  int64_t rows = 1, length = 1;
  int64_t accumulation_steps = 1;
  bool packing = false;
  int world_size = 1, ranks_per_host = 1;
  bool on_gpu = false;
  bool has_wide_products = true;  // of head and loss in narrow types there (loss/loss_memory.h)
  int64_t device_bytes = 0;       // all memory of a GPU; 0: not known, and taken to be enough for what the loss chooses
  ProcessMemory process = {};     // without models: MeasureProcess; nothing on a GPU
  int64_t data_bytes = 0;         // data set and tokenizer
};

struct MemoryPart {
  std::string kind;
  int64_t bytes = 0;
  std::string what;  // in which type, of how many, who has it
};

struct MemoryPlan {
  std::string moment;  // "when ...": at which it is most
  std::vector<MemoryPart> parts;
  int64_t host_shared_bytes = 0;       // of a rank's, what the ranks of a host have once together: the program's pages
  int64_t in_shared_memory_bytes = 0;  // of a rank's, what lies in shared memory (memfd: /dev/shm is not used)

  int64_t host_bytes = 0;  // of all ranks of a host

  int64_t rank_bytes() const;  // of a rank
};

// Of a data set in memory, by the size of its files: the text, and of each token, taken as three bytes of text, its id
// and whether it is a target.
int64_t DataSetBytes(int64_t file_bytes);

// InvalidArgument: sizes below 1, ranks_per_host that does not divide world_size, stages that there are not, or that
// want blocks which the model does not have.
[[nodiscard]] absl::StatusOr<MemoryPlan> PlanMemory(const MemoryPlanTask& task);

struct MemoryAtHand {
  int64_t bytes = 0;  // of a host, or of one GPU; 0: not known
  std::string where;  // "this host"
};

// The plan as text for people: a table of kinds, a host's sum, whether it fits; where it does not, also what a rank
// would need with other settings, each planned in the same way.
std::string DescribePlan(const MemoryPlanTask& task, const MemoryPlan& plan, const MemoryAtHand& at_hand);

}  // namespace distill
