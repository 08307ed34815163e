#include "libdistill/plan/batch_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/plan/instances.h"
#include "libdistill/plan/report_numbers.h"

namespace distill {
namespace {

absl::StatusOr<int64_t> BytesWith(MemoryPlanTask task, int64_t rows) {
  task.rows = rows;
  DISTILL_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(task));
  return plan.rank_bytes();
}

std::string InferenceLine(const char* who, const PlannedModel& model, int64_t length) {
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const auto pass = [&](int64_t element_bytes) {
    const PassMemory memory = model.memory({.tokens = length, .element_bytes = element_bytes});
    return memory.forward_bytes + std::max(memory.output_bytes, length * model.vocabulary * element_bytes);
  };
  const int64_t elements = model.elements();
  return absl::StrFormat("%-8s %-11s %10.1f M %11.1f %11.1f %11.1f %11.1f\n", who, model.family,
                         static_cast<double>(elements) / 1e6, mib(4 * elements), mib(pass(4)), mib(2 * elements),
                         mib(pass(2)));
}

}  // namespace

absl::StatusOr<std::vector<BatchRow>> PlanBatches(const BatchTable& table) {
  if (table.gpus < 1 || table.global_batch_size < table.gpus) {
    return absl::InvalidArgumentError(
        absl::StrCat("global_batch_size: ", table.global_batch_size, " gives none of ", table.gpus, " GPUs a row"));
  }
  MemoryPlanTask task = table.memory;
  task.on_gpu = true;
  task.accumulation_steps = 1;
  const int64_t rank_rows = table.global_batch_size / table.gpus;
  const auto fill_step = [&](BatchRow& row) {
    row.accumulation = (rank_rows + row.batch - 1) / row.batch;
    row.effective_batch = rank_rows * table.gpus;
  };
  std::vector<BatchRow> rows;
  for (const int64_t gb : table.gpu_memory_gb) {
    BatchRow row{.gpu_memory_gb = gb};
    task.device_bytes = gb * 1'000'000'000;
    for (int64_t batch = 1; batch <= rank_rows; batch *= 2) {
      DISTILL_ASSIGN_OR_RETURN(const int64_t bytes, BytesWith(task, batch));
      if (batch == 1) row.rank_bytes = bytes;
      if (bytes > UsableBytes(static_cast<double>(gb))) break;
      row.batch = batch;
      row.rank_bytes = bytes;
    }
    if (row.batch > 0) fill_step(row);
    rows.push_back(row);
  }
  if (!table.has_run) return rows;
  BatchRow run{.batch = std::min(table.memory.rows, rank_rows)};
  fill_step(run);
  task.accumulation_steps = run.accumulation;
  task.device_bytes = table.memory.device_bytes;
  DISTILL_ASSIGN_OR_RETURN(run.rank_bytes, BytesWith(task, run.batch));
  rows.push_back(run);
  return rows;
}

std::string DescribeBatches(const BatchTable& table, const std::vector<BatchRow>& rows) {
  std::string text = absl::StrFormat(
      "\nA global batch of %s rows of %d tokens on %d GPU(s), %s a weight%s: the largest power of two that fits, as "
      "planned.\n%-12s %12s %16s %18s %14s\n",
      WithCommas(table.global_batch_size), table.memory.length, table.gpus,
      c10::elementSize(table.memory.dtype) == 2 ? "16 bits" : "32 bits",
      table.memory.gradient_checkpointing ? ", gradient_checkpointing" : "", "GPU memory", "batch a GPU",
      "micro-batches", "effective batch", "GiB planned");
  for (const BatchRow& row : rows) {
    const std::string who = row.gpu_memory_gb > 0 ? absl::StrCat(row.gpu_memory_gb, " GB") : "this run";
    absl::StrAppendFormat(&text, "%12s %12s %16s %18s %14.2f\n", who,
                          row.batch > 0 ? absl::StrCat(row.batch) : "none fits",
                          row.batch > 0 ? absl::StrCat(row.accumulation) : "-",
                          row.batch > 0 ? WithCommas(row.effective_batch) : "-", GiB(row.rank_bytes));
  }
  return absl::StrCat(text, "Of each GPU half a GiB is left to CUDA's context, and a twentieth to the allocator.\n");
}

std::string DescribeInference(const PlannedModel& teacher, const PlannedModel& student, int64_t length) {
  const double ratio = static_cast<double>(student.elements()) / static_cast<double>(teacher.elements());
  return absl::StrCat(
      absl::StrFormat("\nInference, one row of %d tokens, MiB; weights, and the states of a pass with its results:\n"
                      "%-20s %12s %11s %11s %11s %11s\n",
                      length, "", "parameters", "fp32", "+ states", "16 bits", "+ states"),
      InferenceLine("teacher", teacher, length), InferenceLine("student", student, length),
      absl::StrFormat("The student has %.2f of the teacher's parameters. int8 is not computed: no model here runs in "
                      "it.\n",
                      ratio));
}

}  // namespace distill
