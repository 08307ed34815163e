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

// A call's use of its credits, if it has any.
class Credits {
 public:
  Credits(FabricCredits* all, const ExchangePlan& plan) : all_(all) {
    if (all == nullptr) return;
    for (const ExchangeMessage& m : plan.outgoing) ++Entry(receivers_, m.peer).left;
    for (const ExchangeMessage& m : plan.incoming) ++Entry(senders_, m.peer).left;
  }
  bool MaySend(int peer) const { return all_ == nullptr || all_->Left(peer) > 0; }
  void NoteSent(int peer) {
    if (all_ == nullptr) return;
    all_->NoteSent(peer, 1);
    --Entry(receivers_, peer).left;
  }
  void NoteTaken(int peer) {
    if (all_ == nullptr) return;
    all_->NoteTaken(peer, 1);
    --Entry(senders_, peer).left;
  }
  absl::StatusOr<CreditStep> Move() {
    CreditStep all;
    for (const Peer& to : receivers_) {
      if (to.left == 0) continue;
      DISTILL_ASSIGN_OR_RETURN(const CreditStep came, all_->Receive(to.rank));
      all.Add(came);
    }
    for (const Peer& from : senders_) {
      DISTILL_ASSIGN_OR_RETURN(const CreditStep went, all_->Send(from.rank, all_->taken(from.rank) + from.left));
      all.Add(went);
    }
    return all;
  }

 private:
  struct Peer {
    int rank = 0;
    int64_t left = 0;  // messages of this call
  };
  // There are few: a tree's neighbours.
  static Peer& Entry(std::vector<Peer>& peers, int rank) {
    for (Peer& peer : peers) {
      if (peer.rank == rank) return peer;
    }
    return peers.emplace_back(Peer{rank, 0});
  }
  FabricCredits* const all_;
  std::vector<Peer> receivers_, senders_;
};

bool MayStart(const ExchangeMessage& message, const MessageLane& in, const MessageLane& out) {
  return in.finished >= message.after_incoming && out.finished >= message.after_outgoing;
}

// Of the message that this rank waits for longest. One that is here and not taken in waits for room: for what has yet
// to leave.
absl::Status CheckOldest(const ExchangePlan& plan, const MessageLane& in, const MessageLane& out,
                         Exchange::Check check) {
  const bool receiving = in.finished < in.started && !in.operation(in.finished).done;
  const bool waits_for_in = receiving || out.finished == out.total;
  const ExchangeMessage& oldest =
      waits_for_in ? plan.incoming[static_cast<size_t>(in.finished)] : plan.outgoing[static_cast<size_t>(out.finished)];
  return check(oldest.peer, receiving);
}

}  // namespace

absl::Status Exchange::Run(const ExchangePlan& plan, const Call& call, Check check) {
  for (std::vector<FabricOperation>* operations : {&sends_, &receives_}) {
    operations->resize(std::max(operations->size(), static_cast<size_t>(plan.window)));
  }
  MessageLane in = {static_cast<int64_t>(plan.incoming.size()), plan.window, receives_};
  MessageLane out = {static_cast<int64_t>(plan.outgoing.size()), plan.window, sends_};
  Credits credits(call.credits, plan);
  const auto start = [&](MessageLane& lane, const std::vector<ExchangeMessage>& messages, bool receiving) {
    const auto message = [&](int64_t m) -> const ExchangeMessage& { return messages[static_cast<size_t>(m)]; };
    return lane.Start(
        [&](int64_t m) { return MayStart(message(m), in, out) && (receiving || credits.MaySend(message(m).peer)); },
        [&](int64_t m, FabricOperation* operation) -> absl::StatusOr<bool> {
          DISTILL_ASSIGN_OR_RETURN(const bool posted, Post(call, message(m), receiving, operation));
          if (posted && !receiving) credits.NoteSent(message(m).peer);
          return posted;
        });
  };
  auto next = plan.reductions.begin();
  const auto take = [&](int64_t m) {
    const bool reduces = next != plan.reductions.end() && next->incoming == m;
    if (reduces && out.finished < next->after_outgoing) return false;
    if (reduces) Reduce(*next++, call);
    credits.NoteTaken(plan.incoming[static_cast<size_t>(m)].peer);
    return true;
  };
  FabricWait wait(endpoint_);
  while (out.finished < out.total || in.finished < in.total) {
    DISTILL_RETURN_IF_ERROR(start(in, plan.incoming, /*receiving=*/true));
    DISTILL_ASSIGN_OR_RETURN(const CreditStep credited, credits.Move());
    DISTILL_RETURN_IF_ERROR(start(out, plan.outgoing, /*receiving=*/false));
    DISTILL_ASSIGN_OR_RETURN(const bool polled, endpoint_->Poll());
    DISTILL_RETURN_IF_ERROR(out.Finish([](int64_t) { return true; }));
    DISTILL_RETURN_IF_ERROR(in.Finish(take));
    const bool moved = std::exchange(in.moved, false) | std::exchange(out.moved, false);
    if (moved || polled || credited.moved) {
      wait.Restart();
      continue;
    }
    if (wait.slow()) DISTILL_RETURN_IF_ERROR(CheckOldest(plan, in, out, check));
    wait.Pause(in.busy || out.busy || credited.refused);
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
