#include "tests/comm/efa_like_rail.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace distill::testing {
namespace {

constexpr size_t kMostReceives = 12;  // of which one stands for the credits of each peer (comm/fabric_credits.h)
constexpr size_t kMostSends = 2;
constexpr int kHandshakePolls = 5;
constexpr uint64_t kDelay = 4, kLongDelay = 300;  // polls
constexpr uint64_t kSlower = 8;
constexpr std::chrono::microseconds kLongest(1000);
constexpr size_t kLongestMessage = 256 << 10;  // that a test sends to a shorter buffer

using Guard = std::lock_guard<std::mutex>;

}  // namespace

void EfaLikeRail::Open(fid_ep* endpoint) {
  const Guard guard(mutex_);
  endpoint_ = endpoint;
}

void EfaLikeRail::Close() {
  const Guard guard(mutex_);
  endpoint_ = nullptr;
  sends_.clear();
}

// Most things take a few polls, some take long.
EfaLikeRail::Due EfaLikeRail::Draw() {
  const uint64_t slower = slow_ ? kSlower : 1;
  counters.slow += slow_ ? 1 : 0;
  return {polls_ + slower * (random_() % (Chance(32) ? kLongDelay : kDelay)), Clock::now() + slower * kLongest};
}

bool EfaLikeRail::Refuses(size_t under_way, size_t most, std::atomic<int64_t>& full) {
  const bool is_full = under_way >= most;
  if (!is_full && !Chance(4)) return false;
  ++(is_full ? full : counters.refused);
  return true;
}

void EfaLikeRail::Begin(void* context, bool receiving) {
  under_way_[context] = receiving;
  ++(receiving ? receiving_ : sending_);
  counters.rails |= 1u << number_;
}

void EfaLikeRail::End(void* context) {
  const auto at = under_way_.find(context);
  if (at == under_way_.end()) return;
  --(at->second ? receiving_ : sending_);
  under_way_.erase(at);
}

ssize_t EfaLikeRail::Queue(const EfaLikeSend& send) {
  if (endpoint_ == nullptr) return -FI_EINVAL;
  if (Refuses(sending_, kMostSends, counters.full_sends)) return -FI_EAGAIN;
  Begin(send.context, /*receiving=*/false);
  sends_.push_back({send, Draw()});
  return 0;
}

ssize_t EfaLikeRail::Send(const EfaLikeSend& send) {
  const Guard guard(mutex_);
  return Queue(send);
}

ssize_t EfaLikeRail::Write(const EfaLikeSend& write) {
  const Guard guard(mutex_);
  const auto [handshake, is_first] = handshakes_.try_emplace(write.to, kHandshakePolls);
  counters.handshakes += is_first ? 1 : 0;
  if (handshake->second == 0) return Queue(write);
  ++counters.refused_writes;
  return -FI_EAGAIN;
}

ssize_t EfaLikeRail::Receive(void* data, size_t bytes, uint64_t tag, uint64_t ignore, void* context) {
  const Guard guard(mutex_);
  if (endpoint_ == nullptr) return -FI_EINVAL;
  if (Refuses(receiving_, kMostReceives, counters.full_receives)) return -FI_EAGAIN;
  const size_t room = std::max(bytes, kLongestMessage);
  Landing landing = {data, bytes, std::unique_ptr<char[]>(new char[room])};  // not zeroed: most stays untouched
  const ssize_t rc =
      real.tagged.recv(endpoint_, landing.memory.get(), room, nullptr, FI_ADDR_UNSPEC, tag, ignore, context);
  if (rc != 0) return rc;
  landings_.insert_or_assign(context, std::move(landing));
  Begin(context, /*receiving=*/true);
  ++counters.anybody;
  return 0;
}

bool EfaLikeRail::Land(void* context, size_t bytes) {
  const auto at = landings_.find(context);
  Landing& landing = at->second;
  const bool fits = bytes <= landing.bytes;
  std::memcpy(landing.data, landing.memory.get(), std::min(bytes, landing.bytes));
  landings_.erase(at);
  return fits;
}

ssize_t EfaLikeRail::Cancel(void* context) {
  const Guard guard(mutex_);
  if (endpoint_ == nullptr) return -FI_EINVAL;
  ++counters.cancelled;
  const auto held =
      std::find_if(sends_.begin(), sends_.end(), [&](const HeldSend& one) { return one.send.context == context; });
  if (held == sends_.end()) return real.endpoint.cancel(&endpoint_->fid, context);
  sends_.erase(held);
  Fail(context, FI_ECANCELED);
  return 0;
}

void EfaLikeRail::Fail(void* context, int error) {
  fi_cq_err_entry entry = {};
  entry.op_context = context;
  entry.err = error;
  errors_.push_back(entry);
}

ssize_t EfaLikeRail::Start(const EfaLikeSend& send) {
  if (send.is_write) {
    return real.rma.writedata(endpoint_, send.data, send.bytes, send.descriptor, send.tag_or_data, send.to,
                              send.address, send.key, send.context);
  }
  return real.tagged.send(endpoint_, send.data, send.bytes, send.descriptor, send.to, send.tag_or_data, send.context);
}

// What is due, in any order.
void EfaLikeRail::StartSends() {
  if (endpoint_ == nullptr) return;
  std::shuffle(sends_.begin(), sends_.end(), random_);
  std::vector<HeldSend> left;
  for (const HeldSend& held : sends_) {
    const ssize_t rc = IsDue(held.due) ? Start(held.send) : -FI_EAGAIN;
    if (rc == -FI_EAGAIN) {
      left.push_back(held);
    } else if (rc != 0) {
      Fail(held.send.context, static_cast<int>(-rc));
    } else if (!left.empty()) {
      ++counters.overtaken;
    }
  }
  sends_ = std::move(left);
}

// What the provider has finished.
ssize_t EfaLikeRail::Collect(fid_cq* queue) {
  fi_cq_data_entry entries[16];
  const ssize_t count = real.queue.read(queue, entries, 16);
  for (ssize_t i = 0; i < count; ++i) {
    const fi_cq_data_entry& entry = entries[i];
    const bool is_receive = landings_.count(entry.op_context) != 0 && (entry.flags & FI_REMOTE_WRITE) == 0;
    if (is_receive && !Land(entry.op_context, entry.len)) {
      ++counters.truncated;
      Fail(entry.op_context, FI_ETRUNC);
    } else {
      done_.push_back({entry, Draw()});
    }
  }
  return count;
}

ssize_t EfaLikeRail::Give(fi_cq_data_entry* entries, size_t most) {
  std::shuffle(done_.begin(), done_.end(), random_);
  size_t count = 0;
  std::vector<Completion> left;
  for (const Completion& completion : done_) {
    if (count == most || !IsDue(completion.due)) {
      left.push_back(completion);
      continue;
    }
    entries[count++] = completion.entry;
    if ((completion.entry.flags & FI_REMOTE_WRITE) == 0) End(completion.entry.op_context);  // else the peer's
  }
  done_ = std::move(left);
  counters.held += static_cast<int64_t>(done_.size());
  return count == 0 ? -FI_EAGAIN : static_cast<ssize_t>(count);
}

bool EfaLikeRail::FailsNow() const {
  if (failing_rail >= 0 && failing_rail != number_) return false;
  int left = polls_to_error;
  while (left > 0 && !polls_to_error.compare_exchange_weak(left, left - 1)) {
  }
  return left == 1;
}

ssize_t EfaLikeRail::Read(fid_cq* queue, fi_cq_data_entry* entries, size_t most) {
  const Guard guard(mutex_);
  ++polls_;
  now_ = Clock::now();
  for (auto& [peer, polls] : handshakes_) polls -= polls > 0 ? 1 : 0;
  if (FailsNow()) {
    Fail(nullptr, FI_EIO);
    ++counters.failed;
  }
  StartSends();
  const ssize_t rc = Collect(queue);
  if (!errors_.empty()) return -FI_EAVAIL;
  if (rc < 0 && rc != -FI_EAGAIN) return rc;
  return Give(entries, most);
}

ssize_t EfaLikeRail::ReadError(fid_cq* queue, fi_cq_err_entry* entry, uint64_t flags) {
  const Guard guard(mutex_);
  ssize_t rc = 1;
  if (errors_.empty()) {
    rc = real.queue.readerr(queue, entry, flags);
  } else {
    *entry = errors_.back();
    errors_.pop_back();
  }
  if (rc == 1) End(entry->op_context);
  if (rc == 1) landings_.erase(entry->op_context);
  return rc;
}

}  // namespace distill::testing
