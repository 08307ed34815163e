#include "libdistill/transport/fabric_endpoint.h"

#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_domain.h"
#include "libdistill/transport/fabric_open.h"
#include "libdistill/transport/fabric_rails.h"
#include "libdistill/transport/shared_rails.h"

namespace distill {
namespace {

static_assert(sizeof(fi_context2) <= sizeof(FabricOperation::context));
static_assert(offsetof(FabricOperation, context) == 0);
static_assert(sizeof(fi_addr_t) == sizeof(uint64_t));

constexpr int kChannelShift = 56;  // in a tag

absl::StatusOr<std::vector<FabricCard>> DecodeCards(const std::vector<std::string>& addresses,
                                                    const std::vector<std::string>& names) {
  std::vector<FabricCard> cards;
  for (size_t i = 0; i < addresses.size(); ++i) {
    absl::StatusOr<FabricCard> card = FabricCard::Decode(addresses[i]);
    if (!card.ok()) return Annotate(card.status(), names[i]);
    cards.push_back(*std::move(card));
  }
  return cards;
}

}  // namespace

FabricMemory::~FabricMemory() {
  for (void* region : regions_) fi_close(&static_cast<fid_mr*>(region)->fid);
}

void* FabricMemory::descriptor(size_t rail) const {
  return regions_.empty() ? nullptr : fi_mr_desc(static_cast<fid_mr*>(regions_[rail]));
}

FabricEndpoint::FabricEndpoint() : channel_(std::make_unique<FabricChannel>()), news_(std::make_unique<FabricNews>()) {}

FabricEndpoint::~FabricEndpoint() {
  if (shared_ != nullptr) Withdraw();
}

absl::StatusOr<std::unique_ptr<FabricEndpoint>> FabricEndpoint::Create(const FabricOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<SharedRails> shared, SharedRails::Open(options));
  std::unique_ptr<FabricEndpoint> endpoint(new FabricEndpoint());
  DISTILL_RETURN_IF_ERROR(endpoint->Open(std::move(shared), /*max_rails=*/0).status());
  return endpoint;
}

absl::StatusOr<std::unique_ptr<FabricEndpoint>> FabricEndpoint::CreateOver(std::shared_ptr<SharedRails> rails,
                                                                           int max_rails) {
  std::unique_ptr<FabricEndpoint> endpoint(new FabricEndpoint());
  DISTILL_ASSIGN_OR_RETURN(const bool is_open, endpoint->Open(std::move(rails), max_rails));
  endpoint->is_shared_ = true;
  return is_open ? std::move(endpoint) : nullptr;
}

absl::StatusOr<bool> FabricEndpoint::Open(std::shared_ptr<SharedRails> shared, int max_rails) {
  DISTILL_ASSIGN_OR_RETURN(const size_t all, shared->Add(channel_.get()));
  if (all == 0) return false;
  shared_ = std::move(shared);
  rails_.resize(max_rails == 0 ? all : std::min(all, static_cast<size_t>(max_rails)));
  std::iota(rails_.begin(), rails_.end(), size_t{0});
  FabricCard card = {shared_->host(), {}, channel_->number};
  for (size_t rail = 0; rail < rails_.size(); ++rail) card.rails.push_back(RailAt(rail).card);
  address_ = card.Encode();
  return true;
}

std::string FabricEndpoint::provider() const { return RailAt(0).info->fabric_attr->prov_name; }
double FabricEndpoint::gigabytes_per_second() const { return shared_->gigabytes_per_second(); }
FabricDomain& FabricEndpoint::RailAt(size_t rail) const { return shared_->rail(rails_[rail]); }

absl::Status FabricEndpoint::Connect(const std::vector<std::string>& addresses, const std::vector<std::string>& names) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FabricCard> cards, DecodeCards(addresses, names));
  const auto self = static_cast<size_t>(std::find(addresses.begin(), addresses.end(), address_) - addresses.begin());
  if (self == addresses.size()) return absl::FailedPreconditionError("this rank's fabric address is not among them");
  const std::vector<std::vector<size_t>> common = CommonRails(cards);
  DISTILL_RETURN_IF_ERROR(CheckAddresses(cards, common, self, names));
  rails_ = shared_->Use(common[self]);
  channel_->names = names;
  peers_.resize(cards.size());
  for (size_t i = 0; i < cards.size(); ++i) peers_[i].channel = static_cast<uint64_t>(cards[i].channel);
  for (size_t rail = 0; rail < common[self].size(); ++rail) {
    networks_.push_back(cards[self].rails[common[self][rail]].network);
    std::vector<std::string> addresses_on_rail;
    for (size_t i = 0; i < cards.size(); ++i) {
      const std::string& address = addresses_on_rail.emplace_back(cards[i].rails[common[i][rail]].address);
      absl::StatusOr<uint64_t> peer = shared_->PeerAt(rails_[rail], address);
      if (!peer.ok()) return Annotate(peer.status(), names[i]);
      peers_[i].addresses.push_back(*peer);
    }
    shared_->BoundSendBuffers(rails_[rail], addresses_on_rail, self);
  }
  return absl::OkStatus();
}

absl::StatusOr<FabricMemory> FabricEndpoint::Register(const void* data, size_t bytes, FabricUse use) {
  const bool of_host = use == FabricUse::kHostMemory, for_writes = use == FabricUse::kForGood;
  const int needs_it = of_host ? FI_MR_LOCAL : FI_MR_LOCAL | FI_MR_HMEM;
  const bool needed = (RailAt(0).info->domain_attr->mr_mode & needs_it) != 0 && bytes > 0;
  if (!needed && !for_writes) return FabricMemory();
  FabricMemory memory;
  memory.data_ = data;
  for (size_t rail = 0; rail < rails_.size(); ++rail) {
    DISTILL_ASSIGN_OR_RETURN(memory.regions_.emplace_back(), RailAt(rail).Register(data, bytes, for_writes, of_host));
  }
  return memory;
}

FabricWriteAccess FabricEndpoint::write_access() const {
  FabricWriteAccess access = FabricWriteAccess::kGood;
  for (size_t rail = 0; rail < rails_.size(); ++rail) access = std::min(access, RailAt(rail).write_access());
  return access;
}

FabricPlace FabricEndpoint::PlaceOf(const FabricMemory& memory) const {
  FabricPlace place;
  for (size_t rail = 0; rail < rails_.size(); ++rail) {
    place.push_back(RailAt(rail).SpotOf(static_cast<fid_mr*>(memory.regions_[rail]), memory.data_));
  }
  return place;
}

absl::StatusOr<bool> FabricEndpoint::Start(const char* doing, size_t rail, int peer, bool receiving, size_t bytes,
                                           FabricOperation* operation, absl::FunctionRef<long(FabricDomain&)> start) {
  DISTILL_RETURN_IF_ERROR(CheckOpen());
  *operation = {.peer = peer, .receiving = receiving, .bytes = bytes, .done = false, .status = absl::OkStatus()};
  operation->rail = &RailAt(rail);
  operation->address = peers_[static_cast<size_t>(peer)].addresses[rail];
  const absl::StatusOr<long> rc = shared_->Begin(*channel_, operation, start);
  if (rc.ok() && *rc == 0) return true;
  operation->done = true;
  DISTILL_RETURN_IF_ERROR(rc.status());
  if (*rc == -FI_EAGAIN) return false;
  return FabricError(absl::StrCat(doing, channel_->NameOf(*operation)), *rc);
}

absl::StatusOr<bool> FabricEndpoint::Send(int peer, uint64_t tag, const void* data, size_t bytes,
                                          const FabricMemory& memory, FabricOperation* operation) {
  const size_t rail = RailOf(tag);
  return Start("sending to ", rail, peer, /*receiving=*/false, bytes, operation, [&](FabricDomain& domain) {
    const uint64_t to = peers_[static_cast<size_t>(peer)].channel << kChannelShift;
    return fi_tsend(domain.endpoint, data, bytes, memory.descriptor(rail), operation->address, to | tag, operation);
  });
}

absl::StatusOr<bool> FabricEndpoint::Receive(int peer, uint64_t tag, void* data, size_t bytes,
                                             const FabricMemory& memory, FabricOperation* operation) {
  const size_t rail = RailOf(tag);
  return Start("receiving from ", rail, peer, /*receiving=*/true, bytes, operation, [&](FabricDomain& domain) {
    const uint64_t here = uint64_t{channel_->number} << kChannelShift;
    return fi_trecv(domain.endpoint, data, bytes, memory.descriptor(rail), operation->address, here | tag, 0,
                    operation);
  });
}

absl::StatusOr<bool> FabricEndpoint::Write(int peer, uint32_t notice, const void* data, size_t bytes,
                                           const FabricMemory& memory, const FabricPlace& place, uint64_t offset,
                                           FabricOperation* operation) {
  const size_t rail = RailOf(notice);
  return Start("writing to ", rail, peer, /*receiving=*/false, bytes, operation, [&](FabricDomain& domain) {
    const uint64_t to = peers_[static_cast<size_t>(peer)].channel << SharedRails::kNoticeBits;
    return fi_writedata(domain.endpoint, data, bytes, memory.descriptor(rail), to | (notice & SharedRails::kNoticeMask),
                        operation->address, place[rail].address + offset, place[rail].key, operation);
  });
}

void FabricEndpoint::Await(int peer, uint32_t notice, FabricOperation* operation) {
  *operation = {.peer = peer, .receiving = true, .done = false, .status = absl::OkStatus()};
  const auto [at, is_new] = notices_.try_emplace(notice & SharedRails::kNoticeMask, operation);
  if (is_new) return;
  operation->done = true;
  notices_.erase(at);
}

void FabricEndpoint::Arrive(uint32_t notice) {
  const auto [at, is_new] = notices_.try_emplace(notice, nullptr);
  if (is_new || at->second == nullptr) return;
  at->second->done = true;
  notices_.erase(at);
}

absl::Status FabricEndpoint::CheckOpen() const {
  return withdrawn_ ? absl::UnavailableError("the fabric's endpoint was closed after an error") : absl::OkStatus();
}

void FabricEndpoint::Withdraw() {
  if (std::exchange(withdrawn_, true)) return;
  shared_->Remove(channel_.get(), peers_may_write_);
}

absl::StatusOr<bool> FabricEndpoint::Poll() {
  DISTILL_RETURN_IF_ERROR(CheckOpen());
  news_->Clear();
  DISTILL_RETURN_IF_ERROR(shared_->Poll(*channel_, *news_));
  for (FabricNews::Finished& one : news_->finished) {
    one.operation->status = std::move(one.status);
    one.operation->done = true;
  }
  for (const uint32_t notice : news_->notices) Arrive(notice);
  return !news_->empty();
}

bool FabricEndpoint::is_direct() const {
  return std::all_of(rails_.begin(), rails_.end(), [this](size_t rail) { return shared_->rail(rail).direct; });
}

bool FabricEndpoint::serves(bool in_call) { return withdrawn_ || shared_->Serves(channel_.get(), in_call); }

bool FabricEndpoint::wakes() const { return shared_->wakes(); }

bool FabricEndpoint::progresses_alone() const { return RailAt(0).info->domain_attr->data_progress == FI_PROGRESS_AUTO; }

void FabricEndpoint::SleepFor(absl::Duration limit, int other, bool serves) {
  shared_->Sleep(*channel_, limit, other, serves && !withdrawn_);
}

}  // namespace distill
