#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/plan/report_numbers.h"
#include "libdistill/plan/time_plan.h"

namespace distill {
namespace {

constexpr int64_t kStepsWhereUnknown = 1000;
constexpr double kShareOfCpu = 0.7;  // of a step's time are matrix products: docs/measurements.md

// Of this process' matrix products, in operations a second.
double MeasureProducts(torch::Dtype dtype) {
  constexpr int64_t kSize = 768;
  const at::Tensor left = at::ones({kSize, kSize}, dtype), right = at::ones({kSize, kSize}, dtype);
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (const auto end = Clock::now() + std::chrono::milliseconds(200); Clock::now() < end;) {
    const auto start = Clock::now();
    (void)at::mm(left, right);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds);
  }
  return best;
}

std::string TypeName(torch::Dtype dtype) {
  return dtype == torch::kFloat32 ? "float32" : dtype == torch::kBFloat16 ? "bfloat16" : "float16";
}

class Report {
 public:
  Report(const CostTask& task, const PlanFlags& flags)
      : task_(task),
        flags_(flags),
        steps_(task.steps > 0 ? task.steps : kStepsWhereUnknown),
        efficiency_(flags.efficiency.value_or(task.memory.student.efficiency)) {}

  std::string Head() const {
    const StepFlops flops = FlopsOfStep(task_.memory);
    const std::string teacher =
        task_.memory.teacher.has_value() ? absl::StrCat(", the teacher ", ThreeDigits(flops.teacher / 1e12)) : "";
    return absl::StrFormat(
        "\nTime of a step: each rank computes %s TFLOP (the student %s%s), out of shapes alone.\n%s",
        ThreeDigits(flops.sum() / 1e12), ThreeDigits(flops.student / 1e12), teacher,
        task_.steps > 0 ? "" : "How many steps there will be depends on the data: sums are of 1,000.\n");
  }

  std::string Here() const {
    if (flags_.seconds_per_step) {
      return absl::StrFormat("%s, as measured; --instance NAME gives a price.\n", Hours(*flags_.seconds_per_step));
    }
    const double rate = MeasureProducts(task_.memory.dtype) / task_.memory.ranks_per_host;
    const double seconds = FlopsOfStep(task_.memory).sum() / (kShareOfCpu * rate);
    return absl::StrFormat(
        "On CPUs like this one: %s.\nA rank's matrix products reach %.3g TFLOP/s in %s here (measured now, with %d "
        "thread(s)), and are taken to be %.1f of a step.\n",
        Hours(seconds), rate / 1e12, TypeName(task_.memory.dtype), at::get_num_threads(), kShareOfCpu);
  }

  std::string On(const Instance& instance) const {
    const MemoryPlanTask task = OnGpus();
    const TimeOfStep time = TimeOn(instance, task, efficiency_);
    const int64_t count = InstancesFor(instance, task);
    const double seconds = flags_.seconds_per_step.value_or(time.seconds()), price = count * instance.dollars_per_hour;
    std::string text =
        flags_.seconds_per_step
            ? absl::StrFormat("On %d x %s: %s s a step, as measured.\n", count, instance.name, ThreeDigits(seconds))
            : absl::StrFormat("On %d x %s: %s s a step, at %g of a peak of %g TFLOP/s (%s in %s).\n", count,
                              instance.name, ThreeDigits(seconds), efficiency_, PeakFlops(instance, task.dtype) / 1e12,
                              instance.gpu, TypeName(TypeOn(instance, task.dtype)));
    absl::StrAppend(&text, ReasonOfShare(), Network(time, count));
    absl::StrAppendFormat(&text, "%s; x $%g an hour = $%s\nThat is the list price in %s in %s: check it.\n",
                          Hours(seconds), price, Cents(Dollars(steps_, seconds, price)), instance.region,
                          instance.date);
    return text;
  }

  absl::StatusOr<std::string> OnEach(const std::vector<Instance>& instances) const {
    MemoryPlanTask task = OnGpus();
    const char* const type_else = task.dtype == torch::kBFloat16 ? " (float16 where there is no bfloat16)" : "";
    DISTILL_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanMemory(task));
    std::string text = absl::StrFormat("\n%s steps on %d GPU(s) of other machines, at %g of their peak in %s%s:\n%s",
                                       WithCommas(steps_), task.world_size, efficiency_, TypeName(task.dtype),
                                       type_else, ReasonOfShare());
    absl::StrAppendFormat(&text, "%-15s %6s %9s %9s %10s  a rank needs %.1f GiB\n", "instance", "number", "s a step",
                          "hours", "price, $", GiB(plan.rank_bytes()));
    for (const Instance& instance : instances) {
      const double seconds = TimeOn(instance, task, efficiency_).seconds();
      const int64_t count = InstancesFor(instance, task);
      const bool fits = plan.rank_bytes() <= UsableBytes(instance.gpu_memory_gb);
      absl::StrAppendFormat(&text, "%-15s %6d %9s %9.2f %10s  %s of %g GB\n", instance.name, count,
                            ThreeDigits(seconds), static_cast<double>(steps_) * seconds / 3600,
                            Cents(Dollars(steps_, seconds, count * instance.dollars_per_hour)),
                            fits ? "fits" : "does not fit", instance.gpu_memory_gb);
    }
    return absl::StrCat(text,
                        "These are list prices, with their dates in bench/instances.yaml: check them. --instance ",
                        "NAME plans for one.\n");
  }

 private:
  MemoryPlanTask OnGpus() const {
    MemoryPlanTask task = task_.memory;
    if (task.on_gpu) return task;
    task.on_gpu = true;
    task.dtype = task_.gpu_dtype;
    return task;
  }

  static torch::Dtype TypeOn(const Instance& instance, torch::Dtype dtype) {
    return dtype == torch::kBFloat16 && instance.bf16_tflops == 0 ? torch::kFloat16 : dtype;
  }

  // "150,000 steps x 0.6 s = 25.0 hours"; of what takes less than one, minutes.
  std::string Hours(double seconds) const {
    const double sum = static_cast<double>(steps_) * seconds;
    return absl::StrFormat("%s steps x %s s = %.1f %s", WithCommas(steps_), ThreeDigits(seconds),
                           sum / (sum < 3600 ? 60 : 3600), sum < 3600 ? "minutes" : "hours");
  }

  std::string ReasonOfShare() const {
    if (flags_.seconds_per_step || flags_.efficiency) return "";
    return "That share is an assumption, not a measurement: --efficiency and --seconds_per_step take yours.\n";
  }

  std::string Network(const TimeOfStep& time, int64_t count) const {
    if (count == 1 || flags_.seconds_per_step) return "";
    return absl::StrFormat("The gradients take %s s between the instances, beside the backward pass.\n",
                           ThreeDigits(time.network_seconds));
  }

  const CostTask& task_;
  const PlanFlags& flags_;
  const int64_t steps_;
  const double efficiency_;
};

}  // namespace

absl::StatusOr<std::string> DescribeCost(const CostTask& task, const PlanFlags& flags, const PlannedJob& job) {
  const Report report(task, flags);
  if (job.instance.has_value()) return report.Head() + report.On(*job.instance);
  DISTILL_ASSIGN_OR_RETURN(const auto instances, ReadInstances(flags.instances));
  std::string text = report.Head();
  if (!task.memory.on_gpu || flags.seconds_per_step) absl::StrAppend(&text, report.Here());
  if (flags.seconds_per_step) return text;
  DISTILL_ASSIGN_OR_RETURN(const std::string each, report.OnEach(instances));
  return text + each;
}

}  // namespace distill
