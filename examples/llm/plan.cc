#include "examples/llm/plan.h"

#include <ATen/DeviceAccelerator.h>

#include <optional>

#include "absl/strings/match.h"
#include "examples/llm/llm_task.h"
#include "examples/llm/sources.h"
#include "libdistill/plan/memory_plan.h"
#include "libdistill/run/device.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/trainer.h"
#include "libdistill/world/available_memory.h"

namespace distill {
namespace {

// Of a data set's files; 0 for what is not there yet.
int64_t FileBytes(const std::string& path) {
  if (FileExists(path)) {
    const auto file = OpenFile(path);
    return file.ok() ? (*file)->size() : 0;
  }
  const auto store = StoreOf(path);
  if (!store.ok()) return 0;
  const auto entries = (*store)->List(path);
  if (!entries.ok()) return 0;
  int64_t bytes = 0;
  for (const FolderEntry& entry : *entries) {
    if (absl::EndsWith(entry.name, ".jsonl")) bytes += entry.size;
  }
  return bytes;
}

absl::StatusOr<MemoryPlanTask> TaskOf(const LlmOptions& options, const PlanFlags& flags, const World& world,
                                      bool on_gpu, c10::Device here) {
  MemoryPlanTask task;
  DISTILL_ASSIGN_OR_RETURN(task.student, ReadDecoderConfig(options.student_model));
  if (!options.teacher_model.empty()) {
    DISTILL_ASSIGN_OR_RETURN(task.teacher, ReadDecoderConfig(options.teacher_model));
  }
  TrainerOptions trainer = options.trainer;
  // A plan for other machines takes their GPUs to multiply bfloat16 themselves, as all since 2020 do.
  if (on_gpu && !here.is_cuda() && trainer.bf16 == Switch::kAuto) trainer.bf16 = Switch::kTrue;
  task.dtype = WorkingType(trainer, here);
  task.gradient_checkpointing = options.gradient_checkpointing;
  task.zero_stage = static_cast<int>(options.trainer.zero_stage);
  task.shard_teacher = options.shard_teacher;
  task.gradient_compression = options.trainer.gradient_compression;
  task.chunk_tokens = options.loss.chunk_tokens;
  task.rows = options.shard.rows_per_rank;
  task.length = options.shard.max_length;
  // The rows of the longest batch; shorter ones have more of them and as many tokens.
  if (options.shard.max_tokens_per_batch > 0) {
    task.rows = (options.shard.max_tokens_per_batch + task.length - 1) / task.length;
  }
  task.packing = options.shard.packing;
  task.world_size = static_cast<int>(flags.world_size.value_or(world.world_size));
  task.ranks_per_host = flags.world_size ? task.world_size : world.local_size;
  if (flags.ranks_per_host) task.ranks_per_host = static_cast<int>(*flags.ranks_per_host);
  DISTILL_ASSIGN_OR_RETURN(const StepShape step, StepOn(options.shard, task.world_size));
  task.accumulation_steps = step.micro_batches;
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

absl::StatusOr<std::string> PlanRun(LlmOptions options, const PlanFlags& flags, const World& world) {
  DISTILL_RETURN_IF_ERROR(FetchConfigs(options));
  const auto here = ChooseDevice(options.run.device, world);
  const bool has_gpu = here.ok() && here->is_cuda(), on_gpu = has_gpu || options.run.device == DeviceChoice::kCuda;
  DISTILL_ASSIGN_OR_RETURN(MemoryPlanTask task,
                           TaskOf(options, flags, world, on_gpu, has_gpu ? *here : c10::Device(c10::kCPU)));
  std::optional<Tokenizer> tokenizer;  // counts as a part of the process
  std::string text;
  DISTILL_RETURN_IF_ERROR(CatchTorch([&]() -> absl::Status {
    const std::string& folder = options.teacher_model.empty() ? options.student_model : options.teacher_model;
    if (FileExists(JoinPath(folder, "tokenizer.json"))) {
      DISTILL_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(folder));
    }
    if (!on_gpu) {
      task.process = MeasureProcess(task.dtype);
      int64_t bytes = FileBytes(options.eval_dataset_name);
      for (const std::string& name : DatasetNames(options)) bytes += FileBytes(name);
      task.data_bytes = DataSetBytes(bytes);
    }
    DISTILL_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(task));
    text = DescribePlan(task, plan, AtHand(on_gpu, has_gpu));
    return absl::OkStatus();
  }));
  return text;
}

}  // namespace distill
