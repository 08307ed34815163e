#include "libdistill/simulate/virtual_host.h"

#include <algorithm>

#include "libdistill/core/status_macros.h"

namespace distill {

VirtualTicks VirtualDevice::Cost(int64_t bytes_moved) const {
  return costs_.kernel +
         static_cast<VirtualTicks>(static_cast<double>(bytes_moved) * 1e3 / costs_.gigabytes_per_second);
}

absl::Status VirtualDevice::BeginCopy(int64_t segment, void*, const void*, int64_t bytes) {
  copied_[segment % 2] = time_.now() + Cost(2 * bytes);
  return absl::OkStatus();
}

absl::Status VirtualDevice::AwaitCopy(int64_t segment) {
  time_.Advance(copied_[segment % 2] - time_.now());
  return absl::OkStatus();
}

absl::Status VirtualDevice::Copy(void*, const void*, int64_t bytes, void*) {
  time_.Advance(Cost(2 * bytes));
  return absl::OkStatus();
}

absl::Status VirtualDevice::CopyRows(absl::Span<const Rows> copies, void*) {
  int64_t bytes = 0;
  for (const Rows& one : copies) bytes += one.rows * one.row_bytes;
  if (!copies.empty()) time_.Advance(Cost(2 * bytes));  // started together, waited for once
  return absl::OkStatus();
}

absl::Status VirtualDevice::Reduce(void*, const void* const*, int source_count, int64_t count, DType dtype, ReduceOp,
                                   int) {
  time_.Advance(Cost((source_count + 1) * count * SizeOf(dtype)));
  return absl::OkStatus();
}

void VirtualHost::Meet(std::pair<int, int> meeting, int ranks, VirtualTicks cost) {
  std::vector<VirtualTime::Fiber*>& waiting = waiting_[meeting];
  if (static_cast<int>(waiting.size()) + 1 < ranks) {
    waiting.push_back(time_.current());
    time_.Wait();
    return;
  }
  for (VirtualTime::Fiber* fiber : waiting) time_.WakeAt(time_.now() + cost, fiber);
  waiting.clear();
  time_.Advance(cost);
}

absl::Status VirtualInside::Execute(const CommCall& call) {
  const VirtualInsideCosts& costs = host_.costs_;
  const double share = static_cast<double>(world_size() - 1) / world_size();
  const auto cost = [&](double bytes) {
    return costs.latency + static_cast<VirtualTicks>(bytes * 1e3 / costs.gigabytes_per_second);
  };
  const auto one = static_cast<double>(call.bytes());
  if (IsPair(call.operation)) {
    const bool sends = call.operation == CommOperation::kSend;
    host_.Meet({sends ? rank() : call.peer, sends ? call.peer : rank()}, 2, cost(one));
    return absl::OkStatus();
  }
  double bytes = one;  // through one GPU's links; a broadcast's and a reduction's chunks follow each other
  if (call.operation == CommOperation::kAllReduce) bytes *= 2 * share;
  if (call.blocks(world_size()) > 1) bytes *= world_size() * share;
  host_.Meet({-1, -1}, world_size(), cost(bytes));
  return absl::OkStatus();
}

class VirtualCalls::State : public AsyncCall::State {
 public:
  State(VirtualTime* time, VirtualTicks handover) : time_(*time), handover_(handover) {}
  // On a thread of the waiter's own.
  absl::Status Wait() override {
    if (ended_) return status_;
    DISTILL_RETURN_IF_ERROR(AwaitEnd());
    time_.Advance(handover_);
    return status_;
  }
  // On the thread of the calls, which the next one has without a change.
  absl::Status AwaitEnd() {
    while (!ended_) {
      waiting_.push_back(time_.current());
      time_.Wait();
    }
    return status_;
  }
  bool done() const override { return ended_; }
  void End(absl::Status status) {
    status_ = std::move(status);
    ended_ = true;
    for (VirtualTime::Fiber* fiber : waiting_) time_.Wake(fiber);
    waiting_.clear();
  }

 private:
  VirtualTime& time_;
  const VirtualTicks handover_;
  bool ended_ = false;
  absl::Status status_;
  std::vector<VirtualTime::Fiber*> waiting_;
};

AsyncCall VirtualCalls::Run(std::function<absl::Status(Communicator&)> call) {
  auto state = std::make_shared<State>(&time_, handover_);
  time_.Spawn([this, state, before = last_, call = std::move(call)] {
    time_.Advance(handover_);
    absl::Status status = before == nullptr ? absl::OkStatus() : before->AwaitEnd();
    if (status.ok()) status = call(communicator_);
    state->End(std::move(status));
  });
  last_ = state;
  return AsyncCall(state);
}

}  // namespace distill
