#include "libdistill/transport/fabric_domain.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <sys/uio.h>

#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_library.h"
#include "libdistill/transport/shared_rails.h"
#include "libdistill/world/different_calls.h"

namespace distill {
namespace {

// The IP address in one of libfabric's names, or nothing.
std::string IpIn(uint32_t format, const char* name) {
  char text[INET6_ADDRSTRLEN] = "";
  if (format == FI_SOCKADDR_IN) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(name)->sin_addr, text, sizeof(text));
  } else if (format == FI_SOCKADDR_IN6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(name)->sin6_addr, text, sizeof(text));
  }
  return text;
}

}  // namespace

FabricDomain::~FabricDomain() {
  for (fid* handle :
       {endpoint ? &endpoint->fid : nullptr, events ? &events->fid : nullptr, queue ? &queue->fid : nullptr,
        addresses ? &addresses->fid : nullptr, domain ? &domain->fid : nullptr, fabric ? &fabric->fid : nullptr}) {
    if (handle != nullptr) fi_close(handle);
  }
}

void FabricDomain::Withdraw() {
  if (endpoint == nullptr || (info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) return;
  fi_close(&endpoint->fid);
  endpoint = nullptr;
}

std::string FabricDomain::provider() const { return info->fabric_attr->prov_name; }

absl::Status FabricDomain::Open(size_t index) {
  const auto check = [this](const char* call, int rc) {
    return rc == 0 ? absl::OkStatus() : FabricError(absl::StrCat(call, " (provider ", provider(), ")"), rc);
  };
  DISTILL_ASSIGN_OR_RETURN(const FabricLibrary* const library, LoadFabricLibrary());
  DISTILL_RETURN_IF_ERROR(check("fi_fabric", library->fabric(info->fabric_attr, &fabric, nullptr)));
  DISTILL_RETURN_IF_ERROR(check("fi_domain", fi_domain(fabric, info.get(), &domain, nullptr)));
  fi_av_attr av = {};
  av.type = FI_AV_TABLE;
  DISTILL_RETURN_IF_ERROR(check("fi_av_open", fi_av_open(domain, &av, &addresses, nullptr)));
  DISTILL_RETURN_IF_ERROR(check("fi_cq_open", OpenQueue()));
  DISTILL_RETURN_IF_ERROR(check("fi_endpoint", fi_endpoint(domain, info.get(), &endpoint, nullptr)));
  DISTILL_RETURN_IF_ERROR(check("fi_ep_bind", fi_ep_bind(endpoint, &addresses->fid, 0)));
  DISTILL_RETURN_IF_ERROR(check("fi_ep_bind", fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV)));
  DISTILL_RETURN_IF_ERROR(OpenEvents());
  if ((info->caps & FI_HMEM) != 0) direct = ForbidCopies();
  DISTILL_RETURN_IF_ERROR(check("fi_enable", fi_enable(endpoint)));
  emulates_writes_ = provider() != "efa" || EmulatesWrites();
  DISTILL_ASSIGN_OR_RETURN(card, Describe(index));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> FabricDomain::PeerAt(const std::string& address) {
  const auto [at, is_new] = peers_.try_emplace(address, 0);
  if (!is_new) return at->second;
  const int added = fi_av_insert(addresses, address.data(), 1, &at->second, 0, nullptr);
  if (added == 1) return at->second;
  peers_.erase(at);
  return FabricError("fi_av_insert", added < 0 ? added : -FI_EINVAL);
}

// With a wait object where the provider has one (efa has none).
int FabricDomain::OpenQueue() {
  fi_cq_attr attributes = {};
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.wait_obj = FI_WAIT_FD;
  if (fi_cq_open(domain, &attributes, &queue, nullptr) == 0) {
    if (fi_control(&queue->fid, FI_GETWAIT, &wait) != 0) wait = -1;
    return 0;
  }
  attributes.wait_obj = FI_WAIT_NONE;
  return fi_cq_open(domain, &attributes, &queue, nullptr);
}

// efa reports what fails inside it, and is no operation's, as an event of the endpoint. Where no queue is bound it ends
// the process (abort() in its efa_base_ep_write_eq_error).
absl::Status FabricDomain::OpenEvents() {
  fi_eq_attr attributes = {};
  attributes.wait_obj = FI_WAIT_NONE;
  int rc = fi_eq_open(fabric, &attributes, &events, nullptr);
  if (rc == -FI_ENOSYS) return absl::OkStatus();
  if (rc == 0) rc = fi_ep_bind(endpoint, &events->fid, 0);
  return rc == 0 ? absl::OkStatus() : FabricError(absl::StrCat("an event queue (provider ", provider(), ")"), rc);
}

// Whether the card alone moves a device's memory; from here on, where that is so. efa would else also copy by CUDA
// calls, from version 1.18 of the interface on, which wait for kernels of NCCL's that may wait for this very rank.
bool FabricDomain::ForbidCopies() {
  const int required = FI_HMEM_P2P_REQUIRED;
  if (fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &required, sizeof(required)) != 0) return false;
  if (provider() != "efa") return true;
  constexpr int kCudaPermitted = FI_OPT_XPU_TRIGGER + 1;  // FI_OPT_CUDA_API_PERMITTED in headers from 1.18 on
  const bool permitted = false;
  const int rc = fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, kCudaPermitted, &permitted, sizeof(permitted));
  return rc == 0 || rc == -FI_ENOPROTOOPT;  // a library that does not know the option does not make such calls
}

// tcp's fabrics are subnets; the NICs of efa are one fabric, and are told apart by their order.
absl::StatusOr<FabricRail> FabricDomain::Describe(size_t index) const {
  char name[512];
  size_t length = sizeof(name);
  const int rc = fi_getname(&endpoint->fid, name, &length);
  if (rc != 0) return FabricError(absl::StrCat("fi_getname (provider ", provider(), ")"), rc);
  const std::string ip = IpIn(info->addr_format, name);
  const std::string fabric_name = info->fabric_attr->name;
  std::string address(name, length);
  // shm's are text, with the numbers of a process and an endpoint; the end of the text says how long they are. All get
  // one length, so that a length tells fabrics apart.
  constexpr size_t kText = 128;
  if (info->addr_format == FI_ADDR_STR && length < kText) address.resize(kText, '\0');
  return FabricRail{ip.empty() ? absl::StrCat(fabric_name, " ", index) : fabric_name, ip, std::move(address)};
}

// FI_RMA without modifiers is all of them. Where a notice takes a receive that was posted, messages would lose theirs.
bool FabricDomain::can_write() const {
  constexpr uint64_t kBoth = FI_WRITE | FI_REMOTE_WRITE;
  const uint64_t ways = info->caps & (kBoth | FI_READ | FI_REMOTE_READ);
  return (info->caps & FI_RMA) != 0 && (ways == 0 || (ways & kBoth) == kBoth) &&
         ((info->mode | info->rx_attr->mode) & FI_RX_CQ_DATA) == 0 &&
         info->domain_attr->cq_data_size >= sizeof(uint32_t);
}

// efa's cards that cannot write leave that to the peer's processor. Who does not know the option has no other way; the
// headers have its name, FI_OPT_EFA_EMULATED_WRITE, from libfabric 1.18 on.
bool FabricDomain::EmulatesWrites() const {
  constexpr int kEmulatedWrite = FI_OPT_EFA_RNR_RETRY + 2;
  bool emulated = true;
  size_t length = sizeof(emulated);
  return fi_getopt(&endpoint->fid, FI_OPT_ENDPOINT, kEmulatedWrite, &emulated, &length) != 0 || emulated;
}

FabricWriteAccess FabricDomain::write_access() const {
  if (!can_write()) return FabricWriteAccess::kNone;
  return !emulates_writes_ ? FabricWriteAccess::kGood : FabricWriteAccess::kPoor;
}

FabricSpot FabricDomain::SpotOf(fid_mr* region, const void* data) const {
  const bool by_address = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  return {by_address ? reinterpret_cast<uintptr_t>(data) : 0, fi_mr_key(region)};
}

absl::StatusOr<fid_mr*> FabricDomain::Register(const void* data, size_t bytes, bool for_writes, bool of_host) {
  const int mode = info->domain_attr->mr_mode;
  const uint64_t key = (mode & FI_MR_PROV_KEY) != 0 ? 0 : next_key_++;
  fid_mr* region = nullptr;
  const iovec place = {const_cast<void*>(data), bytes};
  fi_mr_attr attributes = {};
  attributes.mr_iov = &place;
  attributes.iov_count = 1;
  attributes.access = FI_SEND | FI_RECV;
  if (can_write()) attributes.access |= for_writes ? FI_WRITE | FI_REMOTE_WRITE : FI_WRITE;
  attributes.requested_key = key;
  if ((info->caps & FI_HMEM) != 0 && cuda_device >= 0 && !of_host) {
    attributes.iface = FI_HMEM_CUDA;
    attributes.device.cuda = cuda_device;
  }
  int rc = fi_mr_regattr(domain, &attributes, 0, &region);
  if (rc == 0 && (mode & FI_MR_ENDPOINT) != 0) {
    rc = fi_mr_bind(region, &endpoint->fid, 0);
    if (rc == 0) rc = fi_mr_enable(region);
    if (rc != 0) fi_close(&region->fid);
  }
  if (rc == 0) return region;
  const absl::Status error = FabricError(absl::StrCat("registering ", bytes, " bytes with ", provider()), rc);
  if (rc != -FI_ENOMEM) return error;
  return absl::ResourceExhaustedError(absl::StrCat(error.message(), " (ulimit -l limits locked memory)"));
}

void FabricDomain::BoundSendBuffers(const std::vector<std::string>& endpoints, size_t own) {
  if (send_buffer == 0 || !absl::StartsWith(provider(), "tcp")) return;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    if (i != own) tcp_peers_.insert(endpoints[i]);
  }
  tcp_.emplace(endpoints[own], std::vector<std::string>(tcp_peers_.begin(), tcp_peers_.end()), send_buffer);
}

// rxm makes a connection when the first message wants it, and says nothing of it.
void FabricDomain::NoteReached(uint64_t peer) {
  if (tcp_.has_value() && reached_.insert(peer).second) newly_reached_ = true;
}

// Not for each by itself: where a rank meets all others at once, that would be as many walks over all connections.
void FabricDomain::BoundNewSendBuffers() {
  constexpr absl::Duration kPause = absl::Milliseconds(20);
  const absl::Time now = absl::Now();
  if (now < bounded_ + kPause) return;
  tcp_->Bound();
  newly_reached_ = false;
  bounded_ = now;
}

absl::Status FabricDomain::Poll(Finished finished, absl::FunctionRef<void(uint32_t notice)> arrived) {
  if (newly_reached_) BoundNewSendBuffers();
  constexpr size_t kAtOnce = 16;
  fi_cq_data_entry entries[kAtOnce];
  const ssize_t count = fi_cq_read(queue, entries, kAtOnce);
  if (count == -FI_EAGAIN || count == -FI_EINTR) return CheckEvents();
  if (count == -FI_EAVAIL) return TakeError(finished);
  if (count < 0) return FabricError("fi_cq_read", count);
  for (ssize_t i = 0; i < count; ++i) {
    if ((entries[i].flags & FI_REMOTE_CQ_DATA) != 0 && (entries[i].flags & FI_WRITE) == 0) {
      arrived(static_cast<uint32_t>(entries[i].data));
      continue;
    }
    auto* operation = static_cast<FabricOperation*>(entries[i].op_context);
    NoteReached(operation->address);
    absl::Status status;
    if (operation->receiving && entries[i].len != operation->bytes) {
      status = DifferentCalls(absl::StrCat(operation->channel->NameOf(*operation), " sent ", entries[i].len, " bytes"),
                              absl::StrCat("this rank expects ", operation->bytes));
    }
    finished(operation, std::move(status), /*in_order=*/true);
  }
  return absl::OkStatus();
}

// Events that are no errors are of things that were never asked for.
absl::Status FabricDomain::CheckEvents() {
  if (events == nullptr) return absl::OkStatus();
  uint32_t kind = 0;
  fi_eq_entry event = {};
  ssize_t rc = fi_eq_read(events, &kind, &event, sizeof(event), 0);
  if (rc >= 0 || rc == -FI_EAGAIN || rc == -FI_EINTR) return absl::OkStatus();
  fi_eq_err_entry error = {};
  if (rc == -FI_EAVAIL) rc = fi_eq_readerr(events, &error, 0);
  if (rc == -FI_EAGAIN) return absl::OkStatus();
  const std::string what = absl::StrCat("libfabric's provider ", provider(), " failed on ", info->domain_attr->name);
  if (rc < 0) return FabricError(absl::StrCat(what, " (fi_eq_readerr)"), rc);
  const char* text = fi_eq_strerror(events, error.prov_errno, error.err_data, nullptr, 0);
  return FabricError(
      absl::StrCat(what, " (its error ", error.prov_errno, ": ", text == nullptr ? "no text" : text, ")"), -error.err);
}

absl::Status FabricDomain::TakeError(Finished finished) {
  fi_cq_err_entry error = {};
  const ssize_t rc = fi_cq_readerr(queue, &error, 0);
  if (rc == -FI_EAGAIN) return absl::OkStatus();
  if (rc < 0) return FabricError("fi_cq_readerr", rc);
  auto* operation = static_cast<FabricOperation*>(error.op_context);
  if (operation == nullptr) return FabricError("the fabric failed", -error.err);
  const std::string& peer = operation->channel->NameOf(*operation);
  if (error.err == FI_ETRUNC) {
    lost_connection |= absl::EndsWith(provider(), ";ofi_rxm");
    finished(
        operation,
        DifferentCalls(absl::StrCat(peer, " sent more bytes"), absl::StrCat("this rank expects ", operation->bytes)),
        /*in_order=*/true);
  } else {
    finished(operation,
             FabricError(absl::StrCat(operation->receiving ? "receiving from " : "sending to ", peer), -error.err),
             /*in_order=*/error.err == FI_ECANCELED);
  }
  return absl::OkStatus();
}

}  // namespace distill
