// Which batch a GPU of each size takes, how many micro-batches then make a global batch, and what a student needs
// beside its teacher when neither is trained.
//
//   DISTILL_ASSIGN_OR_RETURN(const auto rows, PlanBatches({.memory = task, .gpus = 8}));
//   std::puts(DescribeBatches(table, rows).c_str());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/plan/memory_plan.h"

namespace distill {

struct BatchTable {
  MemoryPlanTask memory = {};  // its rows, accumulation and devices are this table's
  int64_t global_batch_size = 4096;
  int64_t gpus = 1;
  std::vector<int64_t> gpu_memory_gb = {16, 24, 32, 40, 80};
  bool has_run = false;  // `memory` has the rows and accumulation of a run, which get a line of their own
};

struct BatchRow {
  int64_t gpu_memory_gb = 0;    // 0: of the run, whatever fits
  int64_t batch = 0;            // rows a GPU in a micro-batch: the largest power of two that fits; 0: none does
  int64_t accumulation = 0;     // micro-batches, the last of which may have fewer rows
  int64_t effective_batch = 0;  // the global batch, or the nearest lower multiple of gpus, as StepOn has it
  int64_t rank_bytes = 0;       // that the plan says for that batch, or for one row where none fits
};

// One for each size of memory, and the run's last where there is one. InvalidArgument: as PlanMemory; a global batch
// below the number of GPUs.
[[nodiscard]] absl::StatusOr<std::vector<BatchRow>> PlanBatches(const BatchTable& table);
std::string DescribeBatches(const BatchTable& table, const std::vector<BatchRow>& rows);

// What one row of `length` tokens takes without training, of both models: weights in float32 and in 16 bits, and the
// states of a pass with what it gives.
std::string DescribeInference(const PlannedModel& teacher, const PlannedModel& student, int64_t length);

}  // namespace distill
