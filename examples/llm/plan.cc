#include "examples/llm/plan.h"

#include <ATen/DeviceAccelerator.h>

#include <filesystem>
#include <optional>

#include "examples/llm/llm_task.h"
#include "libdistill/plan/memory_plan.h"
#include "libdistill/plan/memory_report.h"
#include "libdistill/store/files.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/device.h"
#include "libdistill/world/available_memory.h"

namespace distill {
namespace {

// Of a data set's files; what is not there yet, or no local path, counts as nothing.
int64_t FileBytes(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    return static_cast<int64_t>(std::filesystem::file_size(path, error));
  }
  int64_t bytes = 0;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".jsonl") bytes += static_cast<int64_t>(entry->file_size(error));
  }
  return bytes;
}

absl::StatusOr<MemoryPlanTask> TaskOf(const CommandLine& command, const World& world, bool on_gpu) {
  const LlmConfig& config = command.config;
  const ProgramFlags& flags = command.flags;
  MemoryPlanTask task;
  DISTILL_ASSIGN_OR_RETURN(task.student, ReadDecoderConfig(config.student_model));
  if (!config.teacher_model.empty()) {
    DISTILL_ASSIGN_OR_RETURN(task.teacher, ReadDecoderConfig(config.teacher_model));
  }
  task.dtype = WorkingType(config);
  task.gradient_checkpointing = config.gradient_checkpointing;
  task.zero_stage = static_cast<int>(config.zero_stage);
  task.shard_teacher = config.shard_teacher;
  task.gradient_compression = config.gradient_compression;
  task.rows = config.per_device_train_batch_size;
  task.length = config.max_length;
  task.accumulation_steps = config.gradient_accumulation_steps;
  task.packing = config.packing;
  task.world_size = flags.world_size > 0 ? static_cast<int>(flags.world_size) : world.world_size;
  task.ranks_per_host = flags.world_size > 0 ? task.world_size : world.local_size;
  if (flags.ranks_per_host > 0) task.ranks_per_host = static_cast<int>(flags.ranks_per_host);
  task.on_gpu = on_gpu;
  return task;
}

MemoryAtHand AtHand(bool on_gpu, bool has_gpu) {
  if (!on_gpu) {
    const AvailableMemory available = ReadAvailableMemory("");
    return {static_cast<int64_t>(available.bytes), available.limited_by};
  }
  if (!has_gpu) return {};
  return {static_cast<int64_t>(at::accelerator::getMemoryInfo(/*device_index=*/0).second), "a GPU of this host"};
}

}  // namespace

absl::StatusOr<std::string> PlanRun(const CommandLine& command, const World& world) {
  const LlmConfig& config = command.config;
  const auto here = ChooseDevice(config.device, world);
  const bool has_gpu = here.ok() && here->is_cuda(), on_gpu = has_gpu || config.device == "cuda";
  DISTILL_ASSIGN_OR_RETURN(MemoryPlanTask task, TaskOf(command, world, on_gpu));
  std::optional<Tokenizer> tokenizer;  // counts as a part of the process
  std::string text;
  DISTILL_RETURN_IF_ERROR(CatchTorch([&]() -> absl::Status {
    const std::string& folder = config.teacher_model.empty() ? config.student_model : config.teacher_model;
    if (FileExists(JoinPath(folder, "tokenizer.json"))) {
      DISTILL_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(folder));
    }
    if (!on_gpu) {
      task.process = MeasureProcess(task.dtype);
      task.data_bytes = DataSetBytes(FileBytes(config.dataset_name) + FileBytes(config.eval_dataset_name));
    }
    DISTILL_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(task));
    text = DescribePlan(task, plan, AtHand(on_gpu, has_gpu));
    return absl::OkStatus();
  }));
  return text;
}

}  // namespace distill
