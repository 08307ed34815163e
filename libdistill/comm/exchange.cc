#include "libdistill/comm/exchange.h"

#include <algorithm>
#include <utility>

#include "libdistill/comm/message_lane.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_wait.h"

namespace distill {
namespace {

const Exchange::Region& RegionOf(const Exchange::Call& call, ExchangeBuffer buffer) {
  return buffer == ExchangeBuffer::kInput ? call.input : buffer == ExchangeBuffer::kResult ? call.result : call.landing;
}

}  // namespace

absl::Status Exchange::Run(const ExchangePlan& plan, const Call& call, Check check) {
  for (std::vector<FabricOperation>* operations : {&sends_, &receives_}) {
    operations->resize(std::max(operations->size(), static_cast<size_t>(plan.window)));
  }
  MessageLane in = {static_cast<int64_t>(plan.incoming.size()), plan.window, receives_};
  MessageLane out = {static_cast<int64_t>(plan.outgoing.size()), plan.window, sends_};
  const auto start = [&](MessageLane& lane, const std::vector<ExchangeMessage>& messages, bool receiving) {
    const auto message = [&](int64_t m) -> const ExchangeMessage& { return messages[static_cast<size_t>(m)]; };
    return lane.Start(
        [&](int64_t m) {
          return in.finished >= message(m).after_incoming && out.finished >= message(m).after_outgoing;
        },
        [&](int64_t m, FabricOperation* operation) { return Post(call, message(m), receiving, operation); });
  };
  auto next = plan.reductions.begin();
  const auto take = [&](int64_t m) {
    if (next == plan.reductions.end() || next->incoming != m) return true;
    if (out.finished < next->after_outgoing) return false;
    Reduce(*next++, call);
    return true;
  };
  FabricWait wait(endpoint_);
  while (out.finished < out.total || in.finished < in.total) {
    DISTILL_RETURN_IF_ERROR(start(in, plan.incoming, /*receiving=*/true));
    DISTILL_RETURN_IF_ERROR(start(out, plan.outgoing, /*receiving=*/false));
    DISTILL_ASSIGN_OR_RETURN(const bool polled, endpoint_->Poll());
    DISTILL_RETURN_IF_ERROR(out.Finish([](int64_t) { return true; }));
    DISTILL_RETURN_IF_ERROR(in.Finish(take));
    const bool moved = std::exchange(in.moved, false) | std::exchange(out.moved, false);
    if (moved || polled) {
      wait.Restart();
      continue;
    }
    if (wait.slow()) {
      const bool receiving = in.finished < in.started;
      const bool waits_for_in = receiving || out.finished == out.total;
      const ExchangeMessage& first = waits_for_in ? plan.incoming[static_cast<size_t>(in.finished)]
                                                  : plan.outgoing[static_cast<size_t>(out.finished)];
      DISTILL_RETURN_IF_ERROR(check(first.peer, receiving));
    }
    wait.Pause(in.busy || out.busy);
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

void Exchange::Reduce(const ExchangeReduction& reduction, const Call& call) {
  const int64_t size = SizeOf(call.dtype);
  sources_.clear();
  for (int i = 0; i < reduction.sources; ++i) {
    sources_.push_back(call.landing.data + (reduction.landing_first + i * reduction.landing_stride) * size);
  }
  sources_.insert(sources_.begin() + reduction.own_place,
                  RegionOf(call, reduction.own).data + reduction.own_first * size);
  const int divisor = reduction.last && call.op == ReduceOp::kAverage ? call.ranks : 1;
  work_.Reduce(RegionOf(call, reduction.into).data + reduction.result_first * size, sources_.data(),
               reduction.sources + 1, reduction.count, call.dtype, call.op, divisor);
}

}  // namespace distill
