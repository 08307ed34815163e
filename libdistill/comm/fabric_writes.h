// Finished blocks are written straight into the registered memory of the next rank of the ring, where both ends can.
//
// A long message with a tag has to find its buffer: efa asks the receiver for each one first. Who knows where a buffer
// lies, and its key, needs no answer. So each call in which blocks are written begins with a note to the previous rank:
// in which memory of Allocate the result lies here, and how far in, or that it lies in none. The key of that memory
// goes with the first note that names it, and is kept. Notes travel while the first half of an all-reduce does; blocks
// for a rank whose result is plain memory go as messages.
//
// A note is the permission to write: its sender has entered the call. What an all-reduce writes later than that are
// finished blocks, which every rank has added to: whatever the receiver sent out of the same place has arrived.
//
// Both ends count the writes from one to the other, over all calls; that number goes with the write. Internal to comm/.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/fabric_regions.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

// Used on the endpoint's thread, in its calls; the neighbours are the same in all of them.
class FabricWrites {
 public:
  explicit FabricWrites(MessageEndpoint* endpoint) : endpoint_(endpoint) {}

  // Before the first call, and after the last one, once the endpoint is withdrawn.
  absl::Status Open();
  void Close();

  // Begins a call with the tag of its first message, in which `previous` may write to `to`.
  void Begin(int next, int previous, uint64_t tag, const FoundRegion& to);
  // Moves notes and keys as far as that can be done now: true when that was something.
  absl::StatusOr<bool> Move();
  // Nothing is left of that for this call.
  bool settled() const { return heard_ && note_out_.done() && key_out_.done(); }
  // Whether the next rank's note is here.
  bool heard() const { return heard_; }
  // Whether blocks are written into the next rank's memory, known once its note is here, and into this rank's.
  bool writes() const { return there_.region != 0; }
  bool is_written() const { return here_.region != 0; }

  // As MessageEndpoint's; the n-th Write of a rank is for the n-th Await of the next one. `at`: bytes behind the begin
  // of the result.
  absl::StatusOr<bool> Write(const char* data, size_t bytes, const FabricMemory& memory, int64_t at,
                             FabricOperation* operation);
  void Await(FabricOperation* operation) { endpoint_->Await(previous_, awaited_++, operation); }

 private:
  struct Note {
    int64_t region = 0;  // its number; 0: none
    int64_t at = 0;
    int64_t has_key = 0;  // a message with the region's place follows
  };
  // One of them, each way; in host memory, also where the blocks are not.
  struct Message {
    absl::Status Open(MessageEndpoint& endpoint, void* its_data, size_t its_bytes);
    // In a call. Starts it, if that is yet to be done; an error is also one that it ended with.
    absl::StatusOr<bool> Move(MessageEndpoint& endpoint, int peer, uint64_t tag);
    void Begin(bool is_wanted) {
      wanted = is_wanted;
      posted = false;
    }
    bool done() const { return !wanted || (posted && operation.done && operation.status.ok()); }

    const bool receives;
    void* data = nullptr;
    size_t bytes = 0;
    FabricMemory memory = {};
    FabricOperation operation = {};
    bool wanted = false;
    bool posted = false;
  };
  // Numbers of regions share so many places in the tables; the key of one that lost its place travels again.
  static constexpr size_t kKept = 4096;
  // Whether the note is here, and the key if it needs one.
  absl::StatusOr<bool> Hear();
  template <typename T>
  static T& At(std::vector<T>& table, int64_t region);

  MessageEndpoint* const endpoint_;
  std::vector<int64_t> told_;       // the numbers of regions of which the previous rank has the keys
  std::vector<FabricPlace> known_;  // of the next rank's
  uint32_t written_ = 0;
  uint32_t awaited_ = 0;
  // Of the call: what the previous rank is told, and what the next one tells.
  int next_ = 0;
  int previous_ = 0;
  uint64_t tag_ = 0;
  Note here_, there_;
  FabricPlace place_here_, place_there_;
  Message note_out_{false}, key_out_{false}, note_in_{true}, key_in_{true};
  bool heard_ = false;
};

}  // namespace distill
