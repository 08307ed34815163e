#include "libdistill/simulate/virtual_network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {

struct VirtualNetwork::Message {
  VirtualNetwork* network = nullptr;
  VirtualEndpoint *from = nullptr, *to = nullptr;
  VirtualPipe *out = nullptr, *in = nullptr;
  VirtualTicks latency = 0;
  uint64_t tag = 0;
  int64_t bytes = 0;
  FabricOperation *send = nullptr, *receive = nullptr;  // null until it is posted, and once it is done
  VirtualTicks sent = 0;                                // when its last byte leaves the sender's card
  bool departed = false, here = false, delivered = false, acknowledged = false;
};

namespace {

// No memory of a process, nor of VirtualMemory, lies so low: such an address is an offset from null, of a communicator
// that has not been opened.
absl::Status CheckAddress(const void* data) {
  constexpr uintptr_t kLowest = 1 << 16;
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address >= kLowest) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a message at address ", address, " of no memory: open the communicator"));
}

}  // namespace

VirtualTicks VirtualPipe::Take(VirtualTicks from, int64_t bytes) {
  const VirtualTicks begin = std::max(from, free);
  free = begin + std::max(least, static_cast<VirtualTicks>(static_cast<double>(bytes) * ticks_per_byte));
  return begin;
}

VirtualNetwork::VirtualNetwork(VirtualTime* time, const VirtualNetworkCosts& costs) : time_(*time), costs_(costs) {}
VirtualNetwork::~VirtualNetwork() = default;

VirtualPipe* VirtualNetwork::Add(double gigabytes_per_second, VirtualTicks least) {
  return pipes_.emplace_back(std::make_unique<VirtualPipe>(VirtualPipe{1e3 / gigabytes_per_second, least, 0})).get();
}

VirtualNetwork::Message* VirtualNetwork::New() {
  if (unused_.empty()) unused_.push_back(made_.emplace_back(std::make_unique<Message>()).get());
  Message* message = unused_.back();
  unused_.pop_back();
  *message = {};
  message->network = this;
  return message;
}

void VirtualNetwork::Depart(Message* message) {
  message->departed = true;
  const bool crosses = message->from->place_.host != message->to->place_.host;
  messages_ += crosses ? 1 : 0;
  bytes_ += crosses ? message->bytes : 0;
  const bool is_long = message->bytes > costs_.eager_bytes;
  const auto handshake = static_cast<VirtualTicks>(costs_.handshake * static_cast<double>(message->latency));
  const VirtualTicks begin = message->out->Take(time_.now() + (is_long ? handshake : 0), message->bytes);
  message->sent = message->out->free;
  time_.At(begin + message->latency, &VirtualNetwork::Arrive, message);
}

void VirtualNetwork::Arrive(void* on) {
  auto* message = static_cast<Message*>(on);
  VirtualTime& time = message->network->time_;
  message->in->Take(time.now(), message->bytes);
  // A receiver is no sooner through than its sender.
  time.At(std::max(message->in->free, message->sent + message->latency), &VirtualNetwork::Finish, message);
}

void VirtualNetwork::Finish(void* on) {
  auto* message = static_cast<Message*>(on);
  VirtualNetwork& network = *message->network;
  message->here = true;
  network.time_.At(network.time_.now() + message->latency, &VirtualNetwork::Acknowledge, message);
  if (message->receive != nullptr) network.Deliver(message);
}

// It is here, and has been asked for.
void VirtualNetwork::Deliver(Message* message) {
  message->to->Complete(message->receive);
  message->to->incoming_.erase({message->tag, message->from->rank_});
  message->delivered = true;
  ReleaseDone(message);
}

// The sender hears that it has arrived.
void VirtualNetwork::Acknowledge(void* on) {
  auto* message = static_cast<Message*>(on);
  message->from->Complete(message->send);
  message->acknowledged = true;
  message->network->ReleaseDone(message);
}

void VirtualNetwork::ReleaseDone(Message* message) {
  if (message->delivered && message->acknowledged) unused_.push_back(message);
}

absl::StatusOr<bool> VirtualEndpoint::Send(int peer, uint64_t tag, const void* data, size_t bytes, const FabricMemory&,
                                           FabricOperation* operation) {
  DISTILL_RETURN_IF_ERROR(CheckAddress(data));
  time_.Advance(network_.costs_.post);
  VirtualEndpoint& to = *peers_[static_cast<size_t>(peer)];
  operation->done = false;
  operation->status = absl::OkStatus();
  VirtualNetwork::Message*& message = to.incoming_[{tag, rank_}];
  if (message == nullptr) message = network_.New();
  const bool inside = to.place_.host == place_.host;
  const size_t rail = static_cast<size_t>(tag % place_.out.size());
  message->from = this;
  message->to = &to;
  message->out = inside ? place_.inside_out : place_.out[rail];
  message->in = inside ? to.place_.inside_in : to.place_.in[rail];
  message->latency = inside ? network_.costs_.inside_latency : network_.costs_.latency;
  message->tag = tag;
  message->bytes = static_cast<int64_t>(bytes);
  message->send = operation;
  const bool awaited = message->receive != nullptr;
  if (awaited || message->bytes <= network_.costs_.eager_bytes) network_.Depart(message);
  return true;
}

absl::StatusOr<bool> VirtualEndpoint::Receive(int peer, uint64_t tag, void* data, size_t, const FabricMemory&,
                                              FabricOperation* operation) {
  DISTILL_RETURN_IF_ERROR(CheckAddress(data));
  time_.Advance(network_.costs_.post);
  operation->done = false;
  operation->status = absl::OkStatus();
  VirtualNetwork::Message*& message = incoming_[{tag, peer}];
  if (message == nullptr) message = network_.New();
  message->receive = operation;
  if (message->here) {
    network_.Deliver(message);
  } else if (message->send != nullptr && !message->departed) {
    network_.Depart(message);
  }
  return true;
}

void VirtualEndpoint::Complete(FabricOperation* operation) {
  operation->done = true;
  news_ = true;
  if (sleeper_ != nullptr) time_.Wake(std::exchange(sleeper_, nullptr));
}

absl::StatusOr<bool> VirtualEndpoint::Poll() { return std::exchange(news_, false); }

void VirtualEndpoint::Sleep(absl::Duration, int) {
  if (news_) return;
  sleeper_ = time_.current();
  time_.Wait();
}

}  // namespace distill
