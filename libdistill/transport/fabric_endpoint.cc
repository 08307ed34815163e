#include "libdistill/transport/fabric_endpoint.h"

#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_domain.h"
#include "libdistill/transport/fabric_open.h"
#include "libdistill/transport/fabric_rails.h"

namespace distill {
namespace {

static_assert(sizeof(fi_context2) <= sizeof(FabricOperation::context));
static_assert(offsetof(FabricOperation, context) == 0);
static_assert(sizeof(fi_addr_t) == sizeof(uint64_t));

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

FabricEndpoint::FabricEndpoint() = default;
FabricEndpoint::~FabricEndpoint() = default;

absl::StatusOr<std::unique_ptr<FabricEndpoint>> FabricEndpoint::Create(const FabricOptions& options) {
  std::unique_ptr<FabricEndpoint> endpoint(new FabricEndpoint());
  DISTILL_RETURN_IF_ERROR(endpoint->Open(options));
  return endpoint;
}

absl::Status FabricEndpoint::Open(const FabricOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(FoundFabrics found, FindFabrics(options));
  FabricCard card = {options.host, {}};
  gigabytes_per_second_ = found.gigabytes_per_second;
  for (FabricInfo& info : found.rails) {
    rails_.push_back(std::make_unique<FabricDomain>(std::move(info)));
    rails_.back()->cuda_device = options.cuda_device;
    rails_.back()->send_buffer = options.send_buffer;
    DISTILL_RETURN_IF_ERROR(rails_.back()->Open());
    DISTILL_ASSIGN_OR_RETURN(card.rails.emplace_back(), rails_.back()->Describe(rails_.size() - 1));
  }
  provider_ = rails_[0]->info->fabric_attr->prov_name;
  address_ = card.Encode();
  return absl::OkStatus();
}

absl::Status FabricEndpoint::Connect(const std::vector<std::string>& addresses, const std::vector<std::string>& names) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FabricCard> cards, DecodeCards(addresses, names));
  const auto self = static_cast<size_t>(std::find(addresses.begin(), addresses.end(), address_) - addresses.begin());
  if (self == addresses.size()) return absl::FailedPreconditionError("this rank's fabric address is not among them");
  const std::vector<std::vector<size_t>> common = CommonRails(cards);
  DISTILL_RETURN_IF_ERROR(CheckAddresses(cards, common, self, names));
  std::vector<std::unique_ptr<FabricDomain>> used;
  for (size_t rail = 0; rail < common[self].size(); ++rail) {
    FabricDomain& domain = *used.emplace_back(std::move(rails_[common[self][rail]]));
    networks_.push_back(cards[self].rails[common[self][rail]].network);
    domain.peers.resize(cards.size());
    domain.names = names;
    std::vector<std::string> addresses_on_rail;
    for (size_t i = 0; i < cards.size(); ++i) {
      const std::string& address = addresses_on_rail.emplace_back(cards[i].rails[common[i][rail]].address);
      const int added = fi_av_insert(domain.addresses, address.data(), 1, &domain.peers[i], 0, nullptr);
      if (added != 1) return FabricError(absl::StrCat("fi_av_insert of ", names[i]), added < 0 ? added : -FI_EINVAL);
    }
    domain.BoundSendBuffers(std::move(addresses_on_rail), self);
  }
  rails_ = std::move(used);
  return absl::OkStatus();
}

absl::StatusOr<FabricMemory> FabricEndpoint::Register(const void* data, size_t bytes, FabricUse use) {
  const bool of_host = use == FabricUse::kHostMemory, for_writes = use == FabricUse::kForGood;
  const int needs_it = of_host ? FI_MR_LOCAL : FI_MR_LOCAL | FI_MR_HMEM;
  const bool needed = (rails_[0]->info->domain_attr->mr_mode & needs_it) != 0 && bytes > 0;
  if (!needed && !for_writes) return FabricMemory();
  FabricMemory memory;
  memory.data_ = data;
  for (const std::unique_ptr<FabricDomain>& rail : rails_) {
    DISTILL_ASSIGN_OR_RETURN(memory.regions_.emplace_back(), rail->Register(data, bytes, for_writes, of_host));
  }
  return memory;
}

FabricWriteAccess FabricEndpoint::write_access() const {
  FabricWriteAccess access = FabricWriteAccess::kGood;
  for (const std::unique_ptr<FabricDomain>& rail : rails_) access = std::min(access, rail->write_access());
  return access;
}

FabricPlace FabricEndpoint::PlaceOf(const FabricMemory& memory) const {
  FabricPlace place;
  for (size_t rail = 0; rail < rails_.size(); ++rail) {
    place.push_back(rails_[rail]->SpotOf(static_cast<fid_mr*>(memory.regions_[rail]), memory.data_));
  }
  return place;
}

absl::StatusOr<bool> FabricEndpoint::Started(long rc, const char* doing, size_t rail,
                                             FabricOperation* operation) const {
  if (rc == 0) return true;
  operation->done = true;
  if (rc == -FI_EAGAIN) return false;
  return FabricError(absl::StrCat(doing, rails_[rail]->names[static_cast<size_t>(operation->peer)]), rc);
}

absl::StatusOr<bool> FabricEndpoint::Send(int peer, uint64_t tag, const void* data, size_t bytes,
                                          const FabricMemory& memory, FabricOperation* operation) {
  DISTILL_RETURN_IF_ERROR(CheckOpen());
  *operation = {{}, peer, false, bytes, false, absl::OkStatus()};
  const size_t rail = RailOf(tag);
  const ssize_t rc = fi_tsend(rails_[rail]->endpoint, data, bytes, memory.descriptor(rail),
                              rails_[rail]->peers[static_cast<size_t>(peer)], tag, operation);
  return Started(rc, "sending to ", rail, operation);
}

absl::StatusOr<bool> FabricEndpoint::Receive(int peer, uint64_t tag, void* data, size_t bytes,
                                             const FabricMemory& memory, FabricOperation* operation) {
  DISTILL_RETURN_IF_ERROR(CheckOpen());
  *operation = {{}, peer, true, bytes, false, absl::OkStatus()};
  const size_t rail = RailOf(tag);
  const ssize_t rc = fi_trecv(rails_[rail]->endpoint, data, bytes, memory.descriptor(rail),
                              rails_[rail]->peers[static_cast<size_t>(peer)], tag, 0, operation);
  return Started(rc, "receiving from ", rail, operation);
}

absl::StatusOr<bool> FabricEndpoint::Write(int peer, uint32_t notice, const void* data, size_t bytes,
                                           const FabricMemory& memory, const FabricPlace& place, uint64_t offset,
                                           FabricOperation* operation) {
  DISTILL_RETURN_IF_ERROR(CheckOpen());
  *operation = {{}, peer, false, bytes, false, absl::OkStatus()};
  const size_t rail = RailOf(notice);
  const ssize_t rc = fi_writedata(rails_[rail]->endpoint, data, bytes, memory.descriptor(rail), notice,
                                  rails_[rail]->peers[static_cast<size_t>(peer)], place[rail].address + offset,
                                  place[rail].key, operation);
  return Started(rc, "writing to ", rail, operation);
}

void FabricEndpoint::Await(int peer, uint32_t notice, FabricOperation* operation) {
  *operation = {{}, peer, true, 0, false, absl::OkStatus()};
  const auto [at, is_new] = notices_.try_emplace(notice, operation);
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
  withdrawn_ = true;
  for (const std::unique_ptr<FabricDomain>& rail : rails_) rail->Withdraw();
}

absl::StatusOr<bool> FabricEndpoint::Poll() {
  DISTILL_RETURN_IF_ERROR(CheckOpen());
  bool any = false;
  for (const std::unique_ptr<FabricDomain>& rail : rails_) {
    DISTILL_ASSIGN_OR_RETURN(const bool found, rail->Poll([this](uint32_t notice) { Arrive(notice); }));
    any |= found;
  }
  return any;
}

bool FabricEndpoint::is_direct() const {
  return std::all_of(rails_.begin(), rails_.end(), [](const auto& rail) { return rail->direct; });
}

bool FabricEndpoint::wakes() const {
  return std::all_of(rails_.begin(), rails_.end(), [](const auto& rail) { return rail->wait >= 0; });
}

bool FabricEndpoint::progresses_alone() const {
  return rails_[0]->info->domain_attr->data_progress == FI_PROGRESS_AUTO;
}

void FabricEndpoint::Sleep(absl::Duration limit, int other) {
  std::vector<pollfd> events = {{other, POLLIN, 0}};  // poll skips what is negative
  for (const std::unique_ptr<FabricDomain>& rail : rails_) {
    if (withdrawn_) break;
    fid* queue = &rail->queue->fid;
    if (rail->wait >= 0 && fi_trywait(rail->fabric, &queue, 1) != 0) return;  // there is something already
    events.push_back({rail->wait, POLLIN, 0});
  }
  const timespec time = absl::ToTimespec(limit);
  ppoll(events.data(), events.size(), &time, nullptr);
}

}  // namespace distill
