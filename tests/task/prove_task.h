// What every task has to show, whatever it trains: the same losses on one rank and on two, evaluations that are the
// same too, and a job that is killed and resumed as if nothing had happened.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <torch/nn/module.h>

#include "absl/status/statusor.h"
#include "libdistill/task/task.h"
#include "libdistill/world/world.h"

namespace distill::testing {

constexpr int64_t kGlobalRows = 4;  // of a step, over all ranks

struct TaskToProve {
  std::shared_ptr<torch::nn::Module> module;
  std::unique_ptr<Task> task;
};
// Called in each rank's process, with steps of kGlobalRows / world_size rows; the same weights each time.
using TaskMaker = std::function<absl::StatusOr<TaskToProve>(const World& world)>;

struct Proof {
  double learning_rate = 0.05;
  int64_t steps = 9;
  std::string metric;  // that the evaluation must give, and that training must bring
  double at_least = 0, at_most = 1e30;
};

// CHECKs all of it, in a folder of its own.
void ProveTask(const TaskMaker& make, const Proof& proof);

}  // namespace distill::testing
