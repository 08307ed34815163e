// In which order gradients come, and when those of a bucket are all there.
//
// The first step with a backward pass is observed: rank 0's order becomes every rank's, and how often each parameter's
// hook fired in it tells when its gradient is complete.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/gradient_plan.h"

namespace distill {

class GradientOrder {
 public:
  struct Options {
    // Whether the order is to be observed, where it is not known; otherwise it stays as the plan has it.
    bool observes = true;
    // Whether each gradient counts as complete when its hook fires for the first time, as long as no step has shown
    // otherwise: the first step's buckets then need not wait for its end.
    bool comes_once = false;
  };
  // `order`: of an earlier run; empty: not known.
  GradientOrder(size_t parameters, std::vector<int64_t> order, const Options& options)
      : options_(options), order_(std::move(order)), gradients_(parameters), knows_parts_(options.comes_once) {}

  // With the plan that this step's buckets have.
  void StartStep(const ShardPlan& plan);
  // A hook has fired for a part that is to leave in this pass. True: that was the gradient's last.
  bool OnGradient(size_t i);
  bool is_complete(size_t bucket) const { return incomplete_[bucket] == 0; }
  // How many parts a gradient is taken to have.
  int64_t parts(size_t i) const;
  // What a failed step leaves says nothing about the next one.
  void EndStep(bool is_good);

  // Between steps: whether Agree is to be called.
  bool asks() const { return options_.observes && order_.empty(); }
  // Rank 0's order, with what it did not use at the end; order() stays empty where it has seen no backward pass. Every
  // rank must call it; blocks.
  [[nodiscard]] absl::Status Agree(Communicator& comm);
  // Parameters by index; empty until known.
  const std::vector<int64_t>& order() const { return order_; }

 private:
  struct Gradient {
    size_t bucket = 0;
    int64_t fires = 0;     // of the hook in this step
    int64_t expected = 0;  // fires until it is complete; 0: not known yet
  };

  const Options options_;
  std::vector<int64_t> order_;
  std::vector<Gradient> gradients_;
  std::vector<int64_t> incomplete_;  // gradients, of each bucket
  std::vector<size_t> fired_;        // parameters in the order in which their gradients came
  bool knows_parts_;                 // of the gradients
};

}  // namespace distill
