#include "libdistill/plan/time_plan.h"

#include <algorithm>

namespace distill {

StepFlops FlopsOfStep(const MemoryPlanTask& task) {
  const auto tokens = static_cast<double>(task.accumulation_steps * task.rows * task.length);
  const PlannedModel& student = task.student;
  const double forward = student.forward_flops(task.length);
  const double backward = student.backward_flops != nullptr ? student.backward_flops(task.length) : 2 * forward;
  const double again = student.again_flops != nullptr ? student.again_flops(task.length) : forward;
  StepFlops flops{.student = tokens * (forward + backward + (task.gradient_checkpointing ? again : 0))};
  if (task.teacher.has_value()) flops.teacher = tokens * task.teacher->forward_flops(task.length);
  return flops;
}

double PeakFlops(const Instance& instance, torch::Dtype dtype) {
  const double narrow =
      dtype == torch::kBFloat16 && instance.bf16_tflops > 0 ? instance.bf16_tflops : instance.fp16_tflops;
  return 1e12 * (dtype == torch::kFloat32 ? instance.fp32_tflops : narrow);
}

int64_t InstancesFor(const Instance& instance, const MemoryPlanTask& task) {
  const int64_t on_one = std::min<int64_t>(instance.gpus, task.ranks_per_host);
  return (task.world_size + on_one - 1) / on_one;
}

TimeOfStep TimeOn(const Instance& instance, const MemoryPlanTask& task, double efficiency) {
  TimeOfStep time{.compute_seconds = FlopsOfStep(task).sum() / (PeakFlops(instance, task.dtype) * efficiency)};
  const auto instances = static_cast<double>(InstancesFor(instance, task));
  const bool is_narrow = task.gradient_compression != GradientCompression::kNone;
  const double bytes = (is_narrow ? 2.0 : 4.0) * static_cast<double>(task.student.elements());
  time.network_seconds = 2 * (instances - 1) / instances * bytes * 8 / (instance.network_gbps * 1e9);
  return time;
}

double Dollars(int64_t steps, double seconds, double dollars_per_hour) {
  return static_cast<double>(steps) * seconds * dollars_per_hour / 3600;
}

}  // namespace distill
