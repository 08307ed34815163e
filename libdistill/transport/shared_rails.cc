#include "libdistill/transport/shared_rails.h"

#include <poll.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_open.h"

namespace distill {
namespace {

constexpr size_t kMostChannels = 256;  // a tag and a notice have 8 bits for them
// For what a channel has under way to end. A peer that runs answers in milliseconds; one that is lost never does.
constexpr absl::Duration kTakingBack = absl::Seconds(1);

}  // namespace

FabricChannel::~FabricChannel() {
  if (wake >= 0) close(wake);
}

absl::StatusOr<std::shared_ptr<SharedRails>> SharedRails::Open(const FabricOptions& options) {
  std::shared_ptr<SharedRails> made(new SharedRails());
  DISTILL_ASSIGN_OR_RETURN(FoundFabrics found, FindFabrics(options));
  made->host_ = options.host;
  made->gigabytes_per_second_ = found.gigabytes_per_second;
  for (FabricInfo& info : found.rails) {
    FabricDomain& domain = *made->rails_.emplace_back(std::make_unique<FabricDomain>(std::move(info)));
    domain.cuda_device = options.cuda_device;
    domain.send_buffer = options.send_buffer;
    DISTILL_RETURN_IF_ERROR(domain.Open(made->rails_.size() - 1));
  }
  return made;
}

absl::StatusOr<size_t> SharedRails::Add(FabricChannel* channel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool is_first = given_ == 0;
  // There an endpoint stays open while anything is registered, so that closing it would end nothing.
  const bool is_bound = (rails_[0]->info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0;
  if (!failed_.ok() || given_ == kMostChannels || (!is_first && (!in_use_ || is_bound))) return size_t{0};
  channel->number = static_cast<uint8_t>(given_++);
  channels_.push_back(channel);
  if (channels_.size() == 1) return rails_.size();
  for (FabricChannel* each : channels_) {
    if (each->wake < 0) each->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (each->wake >= 0) continue;
    const int error = errno;
    channels_.pop_back();
    return absl::ResourceExhaustedError(absl::StrCat("no eventfd: ", std::strerror(error)));
  }
  return rails_.size();
}

void SharedRails::Remove(FabricChannel* channel, bool peers_may_write) {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool may_stay = failed_.ok() && channels_.size() > 1 && !peers_may_write;
  if (!may_stay || !TakeBack(*channel, lock)) Close();
  channel->under_way.clear();
  std::erase(channels_, channel);
  if (server_ == channel) server_ = nullptr;
  for (FabricChannel* other : channels_) Wake(*other);  // one of them serves from now on
}

// A receive that no message has reached is cancelled; everything else ends by itself, if the peers are there.
bool SharedRails::TakeBack(FabricChannel& channel, std::unique_lock<std::mutex>& lock) {
  constexpr absl::Duration kPause = absl::Microseconds(50);
  for (FabricOperation* operation : channel.under_way) {
    if (operation->receiving) fi_cancel(&operation->rail->endpoint->fid, operation);
  }
  for (const Deadline patience = Deadline::After(kTakingBack); !channel.under_way.empty() && !patience.Passed();) {
    if (channel.lost_one || !PollRails().ok()) return false;
    lock.unlock();
    absl::SleepFor(kPause);
    lock.lock();
  }
  return failed_.ok() && !channel.lost_one && channel.under_way.empty();
}

// The endpoints alone: what is registered, and whoever sleeps on their queues, stays.
void SharedRails::Close() {
  if (std::exchange(closed_, true)) return;
  for (const std::unique_ptr<FabricDomain>& rail : rails_) rail->Withdraw();
  if (!failed_.ok()) return;
  failed_ = absl::UnavailableError(
      "the fabric's endpoint was closed after an error of another communicator of this rank, with which this one "
      "shares it (DISTILL_FABRIC_SHARED=0 gives each its own)");
}

std::vector<size_t> SharedRails::Use(const std::vector<size_t>& rails) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(in_use_, true)) return rails;
  std::vector<std::unique_ptr<FabricDomain>> kept;
  std::vector<size_t> numbers;
  for (const size_t rail : rails) {
    numbers.push_back(kept.size());
    kept.push_back(std::move(rails_[rail]));
  }
  rails_ = std::move(kept);
  return numbers;
}

bool SharedRails::wakes() const {
  return std::all_of(rails_.begin(), rails_.end(), [](const auto& rail) { return rail->wait >= 0; });
}

absl::StatusOr<uint64_t> SharedRails::PeerAt(size_t rail, const std::string& address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return rails_[rail]->PeerAt(address);
}

void SharedRails::BoundSendBuffers(size_t rail, const std::vector<std::string>& addresses, size_t own) {
  const std::lock_guard<std::mutex> lock(mutex_);
  rails_[rail]->BoundSendBuffers(addresses, own);
}

absl::StatusOr<long> SharedRails::Begin(FabricChannel& channel, FabricOperation* operation,
                                        absl::FunctionRef<long(FabricDomain&)> start) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failed_.ok() && !channel.news.empty()) return -FI_EAGAIN;  // its own error comes first
  DISTILL_RETURN_IF_ERROR(failed_);
  operation->channel = &channel;
  const long rc = start(*operation->rail);
  if (rc != 0) return rc;
  operation->under_way = true;
  operation->place = channel.under_way.size();
  channel.under_way.push_back(operation);
  return rc;
}

// efa reports an operation that failed once for each of its packets (before libfabric 2.3.1).
void SharedRails::Finish(FabricOperation* operation, absl::Status status, bool in_order) {
  FabricChannel& channel = *operation->channel;
  channel.lost_one |= !in_order;
  if (!operation->under_way) return;
  operation->under_way = false;
  channel.under_way.back()->place = operation->place;
  channel.under_way[operation->place] = channel.under_way.back();
  channel.under_way.pop_back();
  channel.news.finished.push_back({operation, std::move(status)});
}

absl::Status SharedRails::PollRails() {
  const auto finished = [this](FabricOperation* operation, absl::Status status, bool in_order) {
    Finish(operation, std::move(status), in_order);
  };
  const auto arrived = [this](uint32_t notice) {
    for (FabricChannel* channel : channels_) {
      if (channel->number == notice >> kNoticeBits) channel->news.notices.push_back(notice & kNoticeMask);
    }
  };
  for (const std::unique_ptr<FabricDomain>& rail : rails_) {
    if (failed_.ok()) failed_ = rail->Poll(finished, arrived);
    if (failed_.ok() && rail->lost_connection && channels_.size() > 1) {
      failed_ = absl::UnavailableError(
          "a message that was longer than expected ended libfabric's connection, which several communicators of this "
          "rank share (DISTILL_FABRIC_SHARED=0 gives each its own)");
    }
  }
  for (FabricChannel* channel : channels_) {
    if (channel->asleep && (!channel->news.empty() || !failed_.ok())) Wake(*channel);
  }
  return failed_;
}

absl::Status SharedRails::Poll(FabricChannel& channel, FabricNews& news) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_.ok()) (void)PollRails();  // which keeps the error
  std::swap(channel.news, news);
  return news.empty() ? failed_ : absl::OkStatus();
}

bool SharedRails::Serves(FabricChannel* channel, bool in_call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (in_call || server_ == nullptr) server_ = channel;
  return server_ == channel;
}

void SharedRails::Wake(FabricChannel& channel) {
  const uint64_t one = 1;
  channel.asleep = false;
  if (channel.wake >= 0) (void)!write(channel.wake, &one, sizeof(one));  // fails when full: the thread wakes as well
}

// A thread says that it sleeps before it gives up the lock, and whoever has news for it looks at that under the lock.
// One that does not serve is in no call, and news can wait until it is.
void SharedRails::Sleep(FabricChannel& channel, absl::Duration limit, int other, bool serves) {
  std::vector<pollfd> events;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (serves && (!channel.news.empty() || !failed_.ok())) return;
    events = {{other, POLLIN, 0}, {channel.wake, POLLIN, 0}};  // poll skips what is negative
    for (const std::unique_ptr<FabricDomain>& rail : rails_) {
      if (!serves || !failed_.ok()) break;
      fid* queue = &rail->queue->fid;
      if (rail->wait >= 0 && fi_trywait(rail->fabric, &queue, 1) != 0) return;  // there is something already
      events.push_back({rail->wait, POLLIN, 0});
    }
    channel.asleep = serves;
  }
  const timespec time = absl::ToTimespec(limit);
  ppoll(events.data(), events.size(), &time, nullptr);
  const std::lock_guard<std::mutex> lock(mutex_);
  channel.asleep = false;
  uint64_t count = 0;
  if (channel.wake >= 0) (void)!read(channel.wake, &count, sizeof(count));  // it may be empty
}

}  // namespace distill
