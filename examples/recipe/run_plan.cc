#include "examples/recipe/run_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "examples/recipe/scaled_rate.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/loss/head_products_cublas.h"
#include "libdistill/plan/time_plan.h"
#include "libdistill/run/device.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/peak_memory.h"
#include "libdistill/train/trainer.h"
#include "libdistill/world/available_memory.h"

namespace distill {
namespace {

constexpr const char* kTextEndings[] = {".jsonl", ".json", ".csv", ".tsv", ".txt", ".parquet"};

// 0 for what is not there yet.
int64_t BytesOfFile(const std::string& path) {
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
    const bool is_text = std::any_of(std::begin(kTextEndings), std::end(kTextEndings),
                                     [&](const char* ending) { return absl::EndsWith(entry.name, ending); });
    if (is_text) bytes += entry.size;
  }
  return bytes;
}

MemoryAtHand AtHand(const PlannedJob& job, bool on_gpu, bool has_gpu) {
  if (job.instance.has_value()) {
    return {UsableBytes(job.instance->gpu_memory_gb), absl::StrCat("a GPU of a ", job.instance->name)};
  }
  if (!on_gpu) {
    const AvailableMemory available = ReadAvailableMemory("");
    return {static_cast<int64_t>(available.bytes), available.limited_by};
  }
  if (!has_gpu) return {};
  return {DeviceMemoryBytes(c10::Device(c10::kCUDA, 0)), "a GPU of this host"};
}

// The rows of the longest batch; shorter ones have more of them and as many tokens.
absl::Status TakeBatches(const ShardOptions& shard, MemoryPlanTask& task) {
  DISTILL_ASSIGN_OR_RETURN(const StepShape step, StepOn(shard, task.world_size));
  task.length = shard.max_length;
  task.rows = std::min(shard.rows_per_rank, step.rank_rows);
  if (shard.max_tokens_per_batch > 0) task.rows = (shard.max_tokens_per_batch + task.length - 1) / task.length;
  task.packing = shard.packing;
  task.accumulation_steps = step.micro_batches;
  return absl::OkStatus();
}

// What job and options say.
absl::Status FillIn(const TrainerOptions& trainer, const PlannedJob& job, RunPlan& plan) {
  MemoryPlanTask& task = plan.memory;
  task.world_size = job.world_size;
  task.ranks_per_host = job.ranks_per_host;
  if (plan.shard) DISTILL_RETURN_IF_ERROR(TakeBatches(*plan.shard, task));
  task.zero_stage = static_cast<int>(trainer.zero_stage);
  task.gradient_compression = trainer.gradient_compression;
  task.bucket_bytes = trainer.bucket_bytes;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> StepsOf(const RunPlan& plan, const TrainerOptions& trainer) {
  if (trainer.max_steps > 0) return trainer.max_steps;
  int64_t rows = 0;
  if (plan.shard) {
    DISTILL_ASSIGN_OR_RETURN(rows, RowsOfStep(*plan.shard, plan.memory.world_size));
  }
  if (rows == 0) rows = plan.memory.rows * plan.memory.accumulation_steps * plan.memory.world_size;
  const int64_t steps = (plan.samples + rows - 1) / rows;  // of an epoch
  return std::llround(std::ceil(trainer.num_train_epochs * static_cast<double>(steps)));
}

}  // namespace

torch::Dtype TypeOnGpus(TrainerOptions trainer, const PlannedJob& job) {
  const bool multiplies_bf16 = !job.instance.has_value() || job.instance->bf16_tflops > 0;
  if (trainer.bf16 == Switch::kAuto) trainer.bf16 = SwitchOf(multiplies_bf16);
  return WorkingType(trainer, torch::kCPU);
}

int64_t TextBytes(const std::vector<std::string>& paths) {
  int64_t bytes = 0;
  for (const std::string& path : paths) bytes += path.empty() ? 0 : BytesOfFile(path);
  return DataSetBytes(bytes);
}

absl::StatusOr<MemoryPlanTask> PlanOnGpus(RunPlan plan, const TrainerOptions& trainer, const PlannedJob& job) {
  DISTILL_RETURN_IF_ERROR(FillIn(trainer, job, plan));
  plan.memory.on_gpu = true;
  plan.memory.dtype = TypeOnGpus(trainer, job);
  return std::move(plan.memory);
}

absl::Status PlanEncoders(const NamedFolder& student, const NamedFolder& teacher, EncoderUse use, MemoryPlanTask& task,
                          int64_t labels) {
  const auto plan = [&](const NamedFolder& model) -> absl::StatusOr<PlannedModel> {
    const absl::StatusOr<EncoderConfig> config = ReadEncoderConfig(model.folder);
    if (!config.ok()) return Annotate(config.status(), model.option);
    return Planned(*config, use, labels);
  };
  DISTILL_ASSIGN_OR_RETURN(task.student, plan(student));
  if (teacher.folder.empty()) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(task.teacher, plan(teacher));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Tokenizer>> LoadTokenizerWhereThere(const std::string& folder) {
  std::optional<Tokenizer> tokenizer;
  if (Tokenizer::IsIn(folder)) {
    DISTILL_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(folder));
  }
  return tokenizer;
}

absl::StatusOr<std::string> DescribeRun(RunPlan plan, const TrainerOptions& trainer, DeviceChoice device,
                                        const PlanFlags& flags, const World& world) {
  DISTILL_ASSIGN_OR_RETURN(const PlannedJob job, JobOf(flags, world));
  const auto here = ChooseDevice(device, world);
  const bool has_gpu = here.ok() && here->is_cuda() && !job.instance.has_value();
  MemoryPlanTask& task = plan.memory;
  task.on_gpu = has_gpu || device == DeviceChoice::kCuda || job.instance.has_value();
  DISTILL_RETURN_IF_ERROR(FillIn(trainer, job, plan));
  DISTILL_ASSIGN_OR_RETURN(const int64_t steps, StepsOf(plan, trainer));
  if (job.instance.has_value()) {
    task.device_bytes = static_cast<int64_t>(job.instance->gpu_memory_gb * 1e9);
  } else if (has_gpu) {
    task.device_bytes = DeviceMemoryBytes(*here);
  }
  const torch::Dtype on_gpus = TypeOnGpus(trainer, job);
  if (task.on_gpu && !has_gpu) {
    task.dtype = on_gpus;
  } else {
    task.dtype = WorkingType(trainer, has_gpu ? *here : c10::Device(c10::kCPU));
  }
  if (has_gpu) {
    const auto dtype = FromTorch(task.dtype);
    task.has_wide_products = dtype.ok() && CheckWideProducts(*dtype, here->index()).ok();
  }
  std::string text;
  DISTILL_RETURN_IF_ERROR(CatchTorch([&]() -> absl::Status {
    if (!task.on_gpu) task.process = MeasureProcess(task.dtype);
    DISTILL_ASSIGN_OR_RETURN(const MemoryPlan memory, PlanMemory(task));
    DISTILL_ASSIGN_OR_RETURN(const std::string cost, DescribeCost({task, on_gpus, steps}, flags, job));
    text = DescribePlan(task, memory, AtHand(job, task.on_gpu, has_gpu)) + cost;
    return absl::OkStatus();
  }));
  return text;
}

}  // namespace distill
