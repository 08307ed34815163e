#include "libdistill/comm/fabric_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/fabric_tags.h"
#include "libdistill/core/status_macros.h"

namespace distill {

void FabricCalls::Start(std::shared_ptr<Rendezvous> rendezvous) {
  rendezvous_ = std::move(rendezvous);
  ++call_;
}

void FabricCalls::Begin(const CommCall& call) {
  ++call_;
  fingerprint_ = fingerprint_ * 16777619 ^ FingerprintOf(call.signature());
  BeginMessage();
}

uint64_t FabricCalls::tag() const { return FabricTag(call_, fingerprint_); }

absl::StatusOr<FabricRegion> FabricCalls::Use(const void* data, int64_t bytes) const {
  FabricRegion region;
  region.data = static_cast<char*>(const_cast<void*>(data));
  region.found = regions_->Find(data, bytes);
  if (region.found.memory != nullptr) return region;
  DISTILL_ASSIGN_OR_RETURN(region.own, endpoint_.Register(data, static_cast<size_t>(bytes)));
  return region;
}

absl::Status FabricCalls::Fit(FabricScratch& scratch, int64_t bytes) const {
  if (scratch.memory != nullptr && scratch.memory->bytes() >= bytes) return absl::OkStatus();
  scratch.region = FabricRegion();  // of memory that goes now
  DISTILL_ASSIGN_OR_RETURN(scratch.memory, work_.Allocate(bytes));
  DISTILL_ASSIGN_OR_RETURN(scratch.region, Use(scratch.memory->data(), bytes));
  return absl::OkStatus();
}

absl::Status FabricCalls::Check(int peer, bool receiving) const {
  DISTILL_RETURN_IF_ERROR(CheckPeers());
  return CheckDeadline(peer, receiving);
}

absl::Status FabricCalls::CheckDeadline(int peer, bool receiving) const {
  if (!deadline_.Passed()) return absl::OkStatus();
  return deadline_.Error(absl::StrCat(receiving ? "waiting for data from " : "sending to ", ranks_.Describe(peer)));
}

absl::Status FabricCalls::End(const absl::Status& status, const std::string& whom) {
  if (status.ok()) {
    endpoint_.PeersMayWrite(false);
    return work_.Finish();
  }
  const absl::Status explained = Explain(status, whom);
  endpoint_.Withdraw();
  return explained;
}

absl::Status FabricCalls::Explain(const absl::Status& status, const std::string& whom) const {
  constexpr absl::Duration kLook = absl::Milliseconds(5);
  if (!absl::IsUnavailable(status)) return status;
  for (const Deadline patience = Deadline::After(kLastWords); !patience.Passed(); absl::SleepFor(kLook)) {
    DISTILL_RETURN_IF_ERROR(CheckPeers());
  }
  return Annotate(status, absl::StrCat("between ", whom));
}

}  // namespace distill
