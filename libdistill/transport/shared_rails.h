// The rails that several endpoints (fabric_endpoint.h) use at once. A rail costs what libfabric keeps for it, some 70
// MB of pinned memory on efa, so a rank's communicators share theirs. Each endpoint is a channel here:
//
//   endpoint of the job ---+                     +---> card 0
//   endpoint of a part ----+---> SharedRails ----+---> card 1
//   endpoint of a part ----+                     +---> ...
//
// A channel's number is this rank's own choice, and part of its address. Who sends to it puts the number into the upper
// bits of the tag, as MPI does with the context of a communicator. So two communicators' messages never meet, whatever
// their tags are.
//
// Each endpoint is used by one thread, and several endpoints at the same time. One lock guards the rails. Whoever polls
// finds what any channel has finished, puts it into that channel's news, and wakes its thread if that sleeps. Internal
// to transport/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libdistill/transport/fabric_domain.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

// What was found for a channel and its thread does not know yet.
struct FabricNews {
  struct Finished {
    FabricOperation* operation;
    absl::Status status;
  };
  std::vector<Finished> finished;
  std::vector<uint32_t> notices;  // of peers' writes that have arrived, without the channel
  bool empty() const { return finished.empty() && notices.empty(); }
  void Clear() {
    finished.clear();
    notices.clear();
  }
};

// An endpoint's part of the rails. All but `number` and `names` is the rails' own, under their lock.
struct FabricChannel {
  FabricChannel() = default;
  FabricChannel(const FabricChannel&) = delete;
  FabricChannel& operator=(const FabricChannel&) = delete;
  ~FabricChannel();
  const std::string& NameOf(const FabricOperation& operation) const {
    return names[static_cast<size_t>(operation.peer)];
  }

  uint8_t number = 0;
  std::vector<std::string> names;           // of the peers, in errors
  std::vector<FabricOperation*> under_way;  // each knows its place here
  bool lost_one = false;  // an operation has failed: the provider may still use its buffer, or report it again
  FabricNews news;
  bool asleep = false;
  int wake = -1;  // an eventfd, where there are other channels
};

class SharedRails {
 public:
  // A notice of a write: the channel's number, and so many bits of what the writer calls it.
  static constexpr int kNoticeBits = 24;
  static constexpr uint32_t kNoticeMask = (uint32_t{1} << kNoticeBits) - 1;

  // Those of the options, which one rank's channels share. Unavailable: no such provider, or no device for it.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<SharedRails>> Open(const FabricOptions& options);

  const std::string& host() const { return host_; }
  double gigabytes_per_second() const { return gigabytes_per_second_; }
  FabricDomain& rail(size_t i) const { return *rails_[i]; }
  // Whether the provider says when there is something to poll.
  bool wakes() const;

  // Until Remove. How many rails there are; 0 where the channel cannot share them: they are closed, or have failed, or
  // the first channel has not called Use yet, or registrations are bound to the endpoint (FI_MR_ENDPOINT), or all 256
  // numbers were given. None is given twice: a message that nobody waits for any more stays in the provider, and would
  // reach whoever had its number next. ResourceExhausted: no file descriptor.
  [[nodiscard]] absl::StatusOr<size_t> Add(FabricChannel* channel);
  // Takes back what the channel has under way: from then on nothing reads or writes its buffers. Closes the rails where
  // that cannot be done, where an operation has failed, or where `peers_may_write` into the channel's memory; and where
  // there is no other channel. Operations of the other channels then never end, and they get an error. Takes about a
  // second at most.
  void Remove(FabricChannel* channel, bool peers_may_write);
  // Which rails a channel uses, before it sends anything. The first channel's are all that is kept; returns their
  // numbers from then on.
  std::vector<size_t> Use(const std::vector<size_t>& rails);
  // What libfabric calls the peer at this address on the rail.
  [[nodiscard]] absl::StatusOr<uint64_t> PeerAt(size_t rail, const std::string& address);
  void BoundSendBuffers(size_t rail, const std::vector<std::string>& addresses, size_t own);

  // Starts the channel's operation by `start`, whose code of libfabric's it returns; it is under way if that is 0.
  // Unavailable: the rails are closed. -FI_EAGAIN also where they are, and the channel has news.
  [[nodiscard]] absl::StatusOr<long> Begin(FabricChannel& channel, FabricOperation* operation,
                                           absl::FunctionRef<long(FabricDomain&)> start);
  // Polls all rails, and moves the channel's news to `news`, which is empty. An error is one of the rails themselves,
  // and every channel's from then on.
  [[nodiscard]] absl::Status Poll(FabricChannel& channel, FabricNews& news);
  // Whether this channel's thread polls for all channels while none is in a call: the one that was in the last call
  // does.
  bool Serves(FabricChannel* channel, bool in_call);
  // Blocks until there may be something for Poll, `other` can be read, or the time is over. `serves`: something of any
  // channel.
  void Sleep(FabricChannel& channel, absl::Duration limit, int other, bool serves);

 private:
  SharedRails() = default;
  absl::Status PollRails();
  bool TakeBack(FabricChannel& channel, std::unique_lock<std::mutex>& lock);
  void Close();
  void Finish(FabricOperation* operation, absl::Status status, bool in_order);
  static void Wake(FabricChannel& channel);

  std::mutex mutex_;
  std::string host_;
  double gigabytes_per_second_ = 0;
  std::vector<std::unique_ptr<FabricDomain>> rails_;
  std::vector<FabricChannel*> channels_;
  size_t given_ = 0;     // numbers
  bool in_use_ = false;  // the first channel has said what it uses
  FabricChannel* server_ = nullptr;
  bool closed_ = false;  // their endpoints
  absl::Status failed_;  // for good
};

}  // namespace distill
