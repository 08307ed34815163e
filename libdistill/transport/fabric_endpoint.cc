#include "libdistill/transport/fabric_endpoint.h"

#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_open.h"

namespace distill {
namespace {

static_assert(sizeof(fi_context2) <= sizeof(FabricOperation::context));
static_assert(offsetof(FabricOperation, context) == 0);

}  // namespace

struct FabricEndpoint::Handles {
  ~Handles() {
    for (fid* handle :
         {endpoint ? &endpoint->fid : nullptr, queue ? &queue->fid : nullptr, addresses ? &addresses->fid : nullptr,
          domain ? &domain->fid : nullptr, fabric ? &fabric->fid : nullptr}) {
      if (handle != nullptr) fi_close(handle);
    }
  }
  FabricInfo info;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_av* addresses = nullptr;
  fid_cq* queue = nullptr;
  int wait = -1;  // the queue's file descriptor, where it has one; its own
  fid_ep* endpoint = nullptr;
  std::vector<fi_addr_t> peers;
  uint64_t next_key = 1;
};

FabricMemory::~FabricMemory() {
  if (region_ != nullptr) fi_close(&static_cast<fid_mr*>(region_)->fid);
}

void* FabricMemory::descriptor() const {
  return region_ == nullptr ? nullptr : fi_mr_desc(static_cast<fid_mr*>(region_));
}

FabricEndpoint::FabricEndpoint() : handles_(std::make_unique<Handles>()) {}
FabricEndpoint::~FabricEndpoint() = default;

absl::StatusOr<std::unique_ptr<FabricEndpoint>> FabricEndpoint::Create(const FabricOptions& options) {
  std::unique_ptr<FabricEndpoint> endpoint(new FabricEndpoint());
  DISTILL_RETURN_IF_ERROR(endpoint->Open(options));
  return endpoint;
}

absl::Status FabricEndpoint::Open(const FabricOptions& options) {
  Handles& h = *handles_;
  DISTILL_ASSIGN_OR_RETURN(h.info, FindFabric(options));
  provider_ = h.info->fabric_attr->prov_name;
  const auto check = [this](const char* call, int rc) {
    return rc == 0 ? absl::OkStatus() : FabricError(absl::StrCat(call, " (provider ", provider_, ")"), rc);
  };
  DISTILL_RETURN_IF_ERROR(check("fi_fabric", fi_fabric(h.info->fabric_attr, &h.fabric, nullptr)));
  DISTILL_RETURN_IF_ERROR(check("fi_domain", fi_domain(h.fabric, h.info.get(), &h.domain, nullptr)));
  fi_av_attr av = {};
  av.type = FI_AV_TABLE;
  DISTILL_RETURN_IF_ERROR(check("fi_av_open", fi_av_open(h.domain, &av, &h.addresses, nullptr)));
  DISTILL_RETURN_IF_ERROR(check("fi_cq_open", OpenQueue()));
  DISTILL_RETURN_IF_ERROR(check("fi_endpoint", fi_endpoint(h.domain, h.info.get(), &h.endpoint, nullptr)));
  DISTILL_RETURN_IF_ERROR(check("fi_ep_bind", fi_ep_bind(h.endpoint, &h.addresses->fid, 0)));
  DISTILL_RETURN_IF_ERROR(check("fi_ep_bind", fi_ep_bind(h.endpoint, &h.queue->fid, FI_TRANSMIT | FI_RECV)));
  DISTILL_RETURN_IF_ERROR(check("fi_enable", fi_enable(h.endpoint)));
  char name[512];
  size_t length = sizeof(name);
  DISTILL_RETURN_IF_ERROR(check("fi_getname", fi_getname(&h.endpoint->fid, name, &length)));
  address_.assign(name, length);
  return absl::OkStatus();
}

// With a wait object where the provider has one (efa has none).
int FabricEndpoint::OpenQueue() {
  Handles& h = *handles_;
  fi_cq_attr attributes = {};
  attributes.format = FI_CQ_FORMAT_MSG;
  attributes.wait_obj = FI_WAIT_FD;
  if (fi_cq_open(h.domain, &attributes, &h.queue, nullptr) == 0) {
    if (fi_control(&h.queue->fid, FI_GETWAIT, &h.wait) != 0) h.wait = -1;
    return 0;
  }
  attributes.wait_obj = FI_WAIT_NONE;
  return fi_cq_open(h.domain, &attributes, &h.queue, nullptr);
}

bool FabricEndpoint::wakes() const { return handles_->wait >= 0; }

bool FabricEndpoint::progresses_alone() const {
  return handles_->info->domain_attr->data_progress == FI_PROGRESS_AUTO;
}

void FabricEndpoint::Sleep(absl::Duration limit, int other) {
  fid* queue = &handles_->queue->fid;
  if (wakes() && fi_trywait(handles_->fabric, &queue, 1) != 0) return;  // there is something already
  pollfd events[] = {{handles_->wait, POLLIN, 0}, {other, POLLIN, 0}};  // poll skips what is negative
  const timespec time = absl::ToTimespec(limit);
  ppoll(events, 2, &time, nullptr);
}

absl::Status FabricEndpoint::Connect(const std::vector<std::string>& addresses) {
  handles_->peers.resize(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i].size() != address_.size()) {
      return absl::FailedPreconditionError(absl::StrCat("the fabric address of rank ", i, " has ", addresses[i].size(),
                                                        " bytes, this rank's ", address_.size(),
                                                        ": the ranks use different fabrics"));
    }
    const int added = fi_av_insert(handles_->addresses, addresses[i].data(), 1, &handles_->peers[i], 0, nullptr);
    if (added != 1) return FabricError(absl::StrCat("fi_av_insert of rank ", i), added < 0 ? added : -FI_EINVAL);
  }
  return absl::OkStatus();
}

absl::StatusOr<FabricMemory> FabricEndpoint::Register(const void* data, size_t bytes) {
  FabricMemory memory;
  const int mode = handles_->info->domain_attr->mr_mode;
  if ((mode & FI_MR_LOCAL) == 0 || bytes == 0) return memory;
  const uint64_t key = (mode & FI_MR_PROV_KEY) != 0 ? 0 : handles_->next_key++;
  fid_mr* region = nullptr;
  int rc = fi_mr_reg(handles_->domain, data, bytes, FI_SEND | FI_RECV, 0, key, 0, &region, nullptr);
  if (rc != 0) return FabricError(absl::StrCat("registering ", bytes, " bytes with ", provider_), rc);
  memory.region_ = region;
  if ((mode & FI_MR_ENDPOINT) != 0) {
    rc = fi_mr_bind(region, &handles_->endpoint->fid, 0);
    if (rc == 0) rc = fi_mr_enable(region);
    if (rc != 0) return FabricError("fi_mr_enable", rc);
  }
  return memory;
}

absl::StatusOr<bool> FabricEndpoint::Send(int peer, uint64_t tag, const void* data, size_t bytes,
                                          const FabricMemory& memory, FabricOperation* operation) {
  *operation = {{}, peer, false, bytes, false, absl::OkStatus()};
  const ssize_t rc = fi_tsend(handles_->endpoint, data, bytes, memory.descriptor(),
                              handles_->peers[static_cast<size_t>(peer)], tag, operation);
  if (rc == 0) return true;
  operation->done = true;
  if (rc == -FI_EAGAIN) return false;
  return FabricError(absl::StrCat("sending to rank ", peer), rc);
}

absl::StatusOr<bool> FabricEndpoint::Receive(int peer, uint64_t tag, void* data, size_t bytes,
                                             const FabricMemory& memory, FabricOperation* operation) {
  *operation = {{}, peer, true, bytes, false, absl::OkStatus()};
  const ssize_t rc = fi_trecv(handles_->endpoint, data, bytes, memory.descriptor(),
                              handles_->peers[static_cast<size_t>(peer)], tag, 0, operation);
  if (rc == 0) return true;
  operation->done = true;
  if (rc == -FI_EAGAIN) return false;
  return FabricError(absl::StrCat("receiving from rank ", peer), rc);
}

absl::StatusOr<bool> FabricEndpoint::Poll() {
  constexpr size_t kAtOnce = 16;
  fi_cq_msg_entry entries[kAtOnce];
  const ssize_t count = fi_cq_read(handles_->queue, entries, kAtOnce);
  if (count == -FI_EAGAIN || count == -FI_EINTR) return false;
  if (count == -FI_EAVAIL) {
    DISTILL_RETURN_IF_ERROR(TakeError());
    return true;
  }
  if (count < 0) return FabricError("fi_cq_read", count);
  for (ssize_t i = 0; i < count; ++i) {
    auto* operation = static_cast<FabricOperation*>(entries[i].op_context);
    operation->done = true;
    if (operation->receiving && entries[i].len != operation->bytes) {
      operation->status = absl::FailedPreconditionError(
          absl::StrCat("rank ", operation->peer, " sent ", entries[i].len, " bytes where this rank expects ",
                       operation->bytes, ": the ranks do not make the same calls"));
    }
  }
  return true;
}

absl::Status FabricEndpoint::TakeError() {
  fi_cq_err_entry error = {};
  const ssize_t rc = fi_cq_readerr(handles_->queue, &error, 0);
  if (rc == -FI_EAGAIN) return absl::OkStatus();
  if (rc < 0) return FabricError("fi_cq_readerr", rc);
  auto* operation = static_cast<FabricOperation*>(error.op_context);
  if (operation == nullptr) return FabricError("the fabric failed", -error.err);
  operation->done = true;
  if (error.err == FI_ETRUNC) {
    operation->status = absl::FailedPreconditionError(
        absl::StrCat("rank ", operation->peer, " sent more than the ", operation->bytes,
                     " bytes that this rank expects: the ranks do not make the same calls"));
  } else {
    operation->status = FabricError(
        absl::StrCat(operation->receiving ? "receiving from rank " : "sending to rank ", operation->peer), -error.err);
  }
  return absl::OkStatus();
}

}  // namespace distill
