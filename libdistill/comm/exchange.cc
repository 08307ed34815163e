#include "libdistill/comm/exchange.h"

#include <algorithm>
#include <utility>

#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_wait.h"

namespace distill {
namespace {

const Exchange::Region& RegionOf(const Exchange::Call& call, ExchangeBuffer buffer) {
  return buffer == ExchangeBuffer::kInput ? call.input : buffer == ExchangeBuffer::kResult ? call.result : call.landing;
}

}  // namespace

// One direction of a call: messages are started and finished in order.
struct Exchange::Lane {
  FabricOperation& operation(int64_t m) const {
    return operations[static_cast<size_t>(m % static_cast<int64_t>(operations.size()))];
  }
  int64_t total() const { return static_cast<int64_t>(messages.size()); }
  const ExchangeMessage& message(int64_t m) const { return messages[static_cast<size_t>(m)]; }
  const std::vector<ExchangeMessage>& messages;
  std::vector<FabricOperation>& operations;
  const bool receiving;
  bool moved = false;
  int64_t started = 0;
  int64_t finished = 0;
  bool busy = false;  // the provider did not take the next message
};

absl::Status Exchange::Run(const ExchangePlan& plan, const Call& call, Check check) {
  for (std::vector<FabricOperation>* operations : {&sends_, &receives_}) {
    operations->resize(std::max(operations->size(), static_cast<size_t>(plan.window)));
  }
  reduced_ = 0;
  Lane in = {plan.incoming, receives_, true};
  Lane out = {plan.outgoing, sends_, false};
  FabricWait wait(endpoint_);
  while (out.finished < out.total() || in.finished < in.total()) {
    DISTILL_RETURN_IF_ERROR(Start(plan, call, in, in, out));
    DISTILL_RETURN_IF_ERROR(Start(plan, call, out, in, out));
    DISTILL_ASSIGN_OR_RETURN(const bool polled, endpoint_->Poll());
    DISTILL_RETURN_IF_ERROR(Leave(out));
    DISTILL_RETURN_IF_ERROR(TakeIn(plan, call, in, out));
    const bool moved = std::exchange(in.moved, false) | std::exchange(out.moved, false);
    if (moved || polled) {
      wait.Restart();
      continue;
    }
    if (wait.slow()) {
      const bool receiving = in.finished < in.started;
      const Lane& lane = receiving || out.finished == out.total() ? in : out;
      DISTILL_RETURN_IF_ERROR(check(lane.message(lane.finished).peer, receiving));
    }
    wait.Pause(in.busy || out.busy);
  }
  return absl::OkStatus();
}

// Hands messages to the fabric, as far as the plan, the window and the provider let it.
absl::Status Exchange::Start(const ExchangePlan& plan, const Call& call, Lane& lane, const Lane& in, const Lane& out) {
  while (lane.started < lane.total() && lane.started - lane.finished < plan.window) {
    const ExchangeMessage& message = lane.message(lane.started);
    if (in.finished < message.after_incoming || out.finished < message.after_outgoing) break;
    DISTILL_ASSIGN_OR_RETURN(const bool posted, Post(call, message, lane.receiving, &lane.operation(lane.started)));
    lane.busy = !posted;
    if (!posted) break;
    ++lane.started;
    lane.moved = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Exchange::Post(const Call& call, const ExchangeMessage& message, bool receive,
                                    FabricOperation* operation) {
  const int64_t size = SizeOf(call.dtype);
  const Region& region = RegionOf(call, message.buffer);
  char* data = region.data + message.first * size;
  const size_t bytes = static_cast<size_t>(message.count * size);
  const uint64_t tag = call.tag + message.number;
  return receive ? endpoint_->Receive(message.peer, tag, data, bytes, *region.memory, operation)
                 : endpoint_->Send(message.peer, tag, data, bytes, *region.memory, operation);
}

absl::Status Exchange::Leave(Lane& out) {
  while (out.finished < out.started && out.operation(out.finished).done) {
    DISTILL_RETURN_IF_ERROR(out.operation(out.finished).status);
    ++out.finished;
    out.moved = true;
  }
  return absl::OkStatus();
}

absl::Status Exchange::TakeIn(const ExchangePlan& plan, const Call& call, Lane& in, const Lane& out) {
  while (in.finished < in.started && in.operation(in.finished).done) {
    DISTILL_RETURN_IF_ERROR(in.operation(in.finished).status);
    if (reduced_ < plan.reductions.size() && plan.reductions[reduced_].incoming == in.finished) {
      const ExchangeReduction& reduction = plan.reductions[reduced_];
      if (out.finished < reduction.after_outgoing) break;
      Reduce(reduction, call);
      ++reduced_;
    }
    ++in.finished;
    in.moved = true;
  }
  return absl::OkStatus();
}

void Exchange::Reduce(const ExchangeReduction& reduction, const Call& call) {
  const int64_t size = SizeOf(call.dtype);
  sources_.clear();
  for (int i = 0; i < reduction.sources; ++i) {
    sources_.push_back(call.landing.data + (reduction.landing_first + i * reduction.landing_stride) * size);
  }
  sources_.insert(sources_.begin() + reduction.own_place,
                  RegionOf(call, reduction.own).data + reduction.own_first * size);
  const int divisor = reduction.last && call.op == ReduceOp::kAverage ? call.ranks : 1;
  work_.Reduce(call.result.data + reduction.result_first * size, sources_.data(), reduction.sources + 1,
               reduction.count, call.dtype, call.op, divisor);
}

}  // namespace distill
