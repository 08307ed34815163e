#include "libdistill/comm/fabric_writes.h"

#include <algorithm>

#include "libdistill/comm/fabric_tags.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::Status FabricWrites::Message::Open(MessageEndpoint& endpoint, void* its_data, size_t its_bytes) {
  data = its_data;
  bytes = its_bytes;
  DISTILL_ASSIGN_OR_RETURN(memory, endpoint.Register(data, bytes, FabricUse::kHostMemory));
  return absl::OkStatus();
}

absl::StatusOr<bool> FabricWrites::Message::Move(MessageEndpoint& endpoint, int peer, uint64_t tag) {
  if (posted) DISTILL_RETURN_IF_ERROR(operation.status);  // OK while it is under way
  if (!wanted || posted) return false;
  DISTILL_ASSIGN_OR_RETURN(posted, receives ? endpoint.Receive(peer, tag, data, bytes, memory, &operation)
                                            : endpoint.Send(peer, tag, data, bytes, memory, &operation));
  return posted;
}

absl::Status FabricWrites::Open() {
  place_here_.resize(static_cast<size_t>(endpoint_->rails()));
  place_there_.resize(place_here_.size());
  const size_t place_bytes = place_here_.size() * sizeof(FabricSpot);
  DISTILL_RETURN_IF_ERROR(note_out_.Open(*endpoint_, &here_, sizeof(here_)));
  DISTILL_RETURN_IF_ERROR(note_in_.Open(*endpoint_, &there_, sizeof(there_)));
  DISTILL_RETURN_IF_ERROR(key_out_.Open(*endpoint_, place_here_.data(), place_bytes));
  return key_in_.Open(*endpoint_, place_there_.data(), place_bytes);
}

void FabricWrites::Close() {
  for (Message* message : {&note_out_, &note_in_, &key_out_, &key_in_}) message->memory = FabricMemory();
}

template <typename T>
T& FabricWrites::At(std::vector<T>& table, int64_t region) {
  const size_t at = static_cast<size_t>(region) % kKept;
  if (table.size() <= at) table.resize(at + 1);
  return table[at];
}

void FabricWrites::Begin(int next, int previous, uint64_t tag, const FoundRegion& to) {
  next_ = next;
  previous_ = previous;
  tag_ = tag;
  here_ = {to.number, to.at, 0};
  endpoint_->PeersMayWrite(is_written());
  if (to.number != 0 && At(told_, to.number) != to.number) {
    At(told_, to.number) = to.number;
    here_.has_key = 1;
    const FabricPlace place = endpoint_->PlaceOf(*to.memory);
    std::copy(place.begin(), place.end(), place_here_.begin());  // which stays where it is registered
  }
  heard_ = false;
  note_out_.Begin(true);
  note_in_.Begin(true);
  key_out_.Begin(here_.has_key != 0);
  key_in_.Begin(false);  // the note will say
}

absl::StatusOr<bool> FabricWrites::Move() {
  const uint64_t note = FabricNoteTag(tag_);
  DISTILL_ASSIGN_OR_RETURN(const bool asked, note_in_.Move(*endpoint_, next_, note));
  DISTILL_ASSIGN_OR_RETURN(const bool told, note_out_.Move(*endpoint_, previous_, note));
  DISTILL_ASSIGN_OR_RETURN(const bool told_key, key_out_.Move(*endpoint_, previous_, FabricKeyTag(tag_)));
  if (heard_) return told || told_key;
  DISTILL_ASSIGN_OR_RETURN(heard_, Hear());
  return asked || told || told_key || heard_;
}

absl::StatusOr<bool> FabricWrites::Hear() {
  if (!note_in_.done()) return false;
  key_in_.wanted = there_.has_key != 0;
  DISTILL_RETURN_IF_ERROR(key_in_.Move(*endpoint_, next_, FabricKeyTag(tag_)).status());
  if (!key_in_.done()) return false;
  if (key_in_.wanted) At(known_, there_.region) = place_there_;
  return true;
}

absl::StatusOr<bool> FabricWrites::Write(const char* data, size_t bytes, const FabricMemory& memory, int64_t at,
                                         FabricOperation* operation) {
  DISTILL_ASSIGN_OR_RETURN(const bool posted,
                           endpoint_->Write(next_, written_, data, bytes, memory, At(known_, there_.region),
                                            static_cast<uint64_t>(there_.at + at), operation));
  if (posted) ++written_;
  return posted;
}

}  // namespace distill
