#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/plan/memory_plan.h"
#include "libdistill/plan/report_numbers.h"

namespace distill {
namespace {

std::string Line(int64_t bytes, const std::string& kind, const std::string& what) {
  std::string line = absl::StrFormat("%9.3f GiB  %-30s %s", GiB(bytes), kind, what);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// What a user might change, by its name in a config; those that change nothing here are left out.
std::vector<std::pair<std::string, MemoryPlanTask>> Alternatives(const MemoryPlanTask& task) {
  std::vector<std::pair<std::string, MemoryPlanTask>> others;
  const auto add = [&](bool changes_it, const std::string& name, const auto& change) {
    if (!changes_it) return;
    MemoryPlanTask other = task;
    change(other);
    others.emplace_back(name, std::move(other));
  };
  using Task = MemoryPlanTask;
  const bool is_job = task.world_size > 1;
  add(task.dtype == torch::kFloat32, "bf16: true", [](Task& other) { other.dtype = torch::kBFloat16; });
  add(is_job && task.zero_stage < 2, "zero_stage: 2", [](Task& other) { other.zero_stage = 2; });
  add(is_job && task.zero_stage < 3 && !task.student.blocks.empty(), "zero_stage: 3",
      [](Task& other) { other.zero_stage = 3; });
  add(is_job && task.teacher.has_value() && !task.shard_teacher, "shard_teacher: true",
      [](Task& other) { other.shard_teacher = true; });
  add(!task.gradient_checkpointing && !task.student.blocks.empty(), "gradient_checkpointing: true",
      [](Task& other) { other.gradient_checkpointing = true; });
  add(task.rows > 1, absl::StrCat("per_device_train_batch_size: ", task.rows / 2),
      [](Task& other) { other.rows /= 2; });
  add(task.ranks_per_host > 1 && !task.on_gpu, "one rank a host", [](Task& other) { other.ranks_per_host = 1; });
  return others;
}

std::string Advice(const MemoryPlanTask& task, int64_t needed, const MemoryAtHand& at_hand) {
  std::string text = "What would make it smaller:\n";
  for (const auto& [name, other] : Alternatives(task)) {
    const auto plan = PlanMemory(other);
    if (!plan.ok()) continue;
    const int64_t bytes = task.on_gpu ? plan->rank_bytes() : plan->host_bytes;
    if (bytes >= needed) continue;
    absl::StrAppend(&text, Line(bytes, name, bytes <= at_hand.bytes ? "fits" : "alone does not fit"));
  }
  return text;
}

}  // namespace

std::string DescribePlan(const MemoryPlanTask& task, const MemoryPlan& plan, const MemoryAtHand& at_hand) {
  std::string text = absl::StrFormat(
      "Memory of %d rank(s), %d on each host, on %s: %s, zero_stage %d, gradient_checkpointing %s,\n"
      "%d x %d tokens in a micro-batch, every row taken as full, the loss as taken at each token.\n\n",
      task.world_size, task.ranks_per_host, task.on_gpu ? "GPUs" : "CPUs",
      c10::elementSize(task.dtype) == 2 ? "16 bits a weight" : "float32", task.zero_stage,
      task.gradient_checkpointing ? "true" : "false", task.rows, task.length);
  for (const MemoryPart& part : plan.parts) absl::StrAppend(&text, Line(part.bytes, part.kind, part.what));
  absl::StrAppend(&text, Line(plan.rank_bytes(), "a rank", absl::StrCat("at its most: ", plan.moment)));
  const int64_t host = plan.host_bytes;
  if (task.on_gpu) {
    absl::StrAppend(
        &text,
        "\nThis is what torch allocates. CUDA's context and what the caching allocator keeps in reserve come "
        "on top.\n");
  } else {
    const std::string shared =
        absl::StrFormat("its ranks share %.3f GiB of program and libraries", GiB(plan.host_shared_bytes));
    absl::StrAppend(&text, Line(host, "a host", task.ranks_per_host > 1 ? shared : ""));
    if (plan.in_shared_memory_bytes > 0) {
      absl::StrAppend(&text, Line(task.ranks_per_host * plan.in_shared_memory_bytes, "of it in shared memory",
                                  "of the host, counted above; the size of /dev/shm is no limit"));
    }
  }
  const int64_t needed = task.on_gpu ? plan.rank_bytes() : host;
  if (at_hand.bytes <= 0) return text + "\nHow much memory there will be is not known here.\n";
  const bool fits = needed <= at_hand.bytes;
  absl::StrAppendFormat(&text, "\n%s: %s has %.1f GiB to give.\n", fits ? "It fits" : "It does not fit", at_hand.where,
                        GiB(at_hand.bytes));
  return fits ? text : text + Advice(task, needed, at_hand);
}

}  // namespace distill
