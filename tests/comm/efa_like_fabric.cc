#include "tests/comm/efa_like_fabric.h"

#include <rdma/fi_errno.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_library.h"
#include "tests/comm/efa_like_rail.h"

namespace distill::testing {
namespace {

constexpr char kEfa[] = "efa", kTcp[] = "tcp;ofi_rxm";
constexpr int kRanksOfHost = 8;  // that have rails of their own; more share them

FabricLibrary library;  // the real one
int rails_of_rank = 1;

std::mutex mutex;  // for all below: registrations go on any thread
uint64_t next_seed = 0;
std::map<const void*, std::shared_ptr<EfaLikeRail>> rails;  // by domain, queue and endpoint
struct Region {
  const char* begin;
  size_t bytes;
  void* descriptor;  // the provider's
  const EfaLikeRail* rail;
};
std::map<const void*, Region> regions;  // by the descriptor that we give

// A table of functions that all objects of one kind share. It is changed once: other threads call by it.
template <typename Table>
struct Kind {
  Table real, ours;
  std::once_flag once;
  template <typename Change>
  void Take(Table*& table, Change change) {
    std::call_once(once, [&] {
      real = ours = *table;
      change(ours);
    });
    table = &ours;
  }
};

Kind<fi_ops_fabric> fabric_kind;
Kind<fi_ops_domain> domain_kind;
Kind<fi_ops_mr> mr_kind;
Kind<fi_ops> closed_domain, closed_queue, closed_endpoint, closed_region;
Kind<fi_ops_cq> queue_kind;
Kind<fi_ops_ep> endpoint_kind;
Kind<fi_ops_tagged> tagged_kind;
Kind<fi_ops_rma> rma_kind;

std::shared_ptr<EfaLikeRail> RailOf(const void* object) {
  const std::lock_guard<std::mutex> lock(mutex);
  return rails.at(object);
}

template <Kind<fi_ops>* kKind>
int Close(fid* object) {
  if (kKind == &closed_endpoint) RailOf(object)->Close();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    rails.erase(object);
    regions.erase(object);
  }
  return kKind->real.close(object);
}

template <Kind<fi_ops>* kKind>
void WatchClose(fid& object) {
  kKind->Take(object.ops, [](fi_ops& ops) { ops.close = &Close<kKind>; });
}

// Whether the buffer is all in what this descriptor stands for; then the provider's descriptor of it.
bool FindDescriptor(const EfaLikeRail& rail, const void* data, size_t bytes, void*& descriptor) {
  if (bytes == 0) return true;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto region = regions.find(descriptor);
  if (descriptor == nullptr || region == regions.end() || region->second.rail != &rail) return false;
  const char* begin = static_cast<const char*>(data);
  descriptor = region->second.descriptor;
  return begin >= region->second.begin && begin + bytes <= region->second.begin + region->second.bytes;
}

ssize_t Invalid() {
  ++EfaLikeRail::counters.invalid;
  return -FI_EINVAL;
}

ssize_t TaggedSend(fid_ep* endpoint, const void* data, size_t bytes, void* descriptor, fi_addr_t to, uint64_t tag,
                   void* context) {
  const std::shared_ptr<EfaLikeRail> rail = RailOf(endpoint);
  if (!FindDescriptor(*rail, data, bytes, descriptor)) return Invalid();
  return rail->Send({false, data, bytes, descriptor, to, tag, 0, 0, context});
}

ssize_t WriteWithData(fid_ep* endpoint, const void* data, size_t bytes, void* descriptor, uint64_t notice, fi_addr_t to,
                      uint64_t address, uint64_t key, void* context) {
  const std::shared_ptr<EfaLikeRail> rail = RailOf(endpoint);
  if (notice >> 32 != 0 || !FindDescriptor(*rail, data, bytes, descriptor)) return Invalid();
  return rail->Write({true, data, bytes, descriptor, to, notice, address, key, context});
}

ssize_t TaggedReceive(fid_ep* endpoint, void* data, size_t bytes, void* descriptor, fi_addr_t, uint64_t tag,
                      uint64_t ignore, void* context) {
  const std::shared_ptr<EfaLikeRail> rail = RailOf(endpoint);
  if (!FindDescriptor(*rail, data, bytes, descriptor)) return Invalid();
  return rail->Receive(data, bytes, tag, ignore, context);
}

ssize_t Cancel(fid* endpoint, void* context) { return RailOf(endpoint)->Cancel(context); }

ssize_t ReadQueue(fid_cq* queue, void* entries, size_t most) {
  return RailOf(queue)->Read(queue, static_cast<fi_cq_data_entry*>(entries), most);
}

ssize_t ReadError(fid_cq* queue, fi_cq_err_entry* entry, uint64_t flags) {
  return RailOf(queue)->ReadError(queue, entry, flags);
}

void Rename(char*& name, const std::string& to) {
  free(name);
  name = strdup(to.c_str());
}

// What libfabric itself knows of one of our cards: all are loopback.
struct RealInfo {
  explicit RealInfo(const fi_info& ours) : info(library.dupinfo(&ours)) {
    Rename(info->fabric_attr->prov_name, kTcp);
    Rename(info->domain_attr->name, "lo");
    info->addr_format = FI_SOCKADDR_IN;
    info->caps |= FI_RMA;  // as fabric_open.cc asks for tcp's
  }
  ~RealInfo() { library.freeinfo(info); }
  RealInfo(const RealInfo&) = delete;
  RealInfo& operator=(const RealInfo&) = delete;
  fi_info* const info;
};

int OpenQueue(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue, void* context) {
  if (attributes->wait_obj != FI_WAIT_NONE) return -FI_ENOSYS;
  const int rc = domain_kind.real.cq_open(domain, attributes, queue, context);
  if (rc != 0) return rc;
  queue_kind.Take((*queue)->ops, [](fi_ops_cq& ops) {
    EfaLikeRail::real.queue = ops;
    ops.read = &ReadQueue;
    ops.readerr = &ReadError;
  });
  WatchClose<&closed_queue>((*queue)->fid);
  const std::lock_guard<std::mutex> lock(mutex);
  rails[*queue] = rails.at(domain);
  return 0;
}

int OpenEndpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  const int rc = domain_kind.real.endpoint(domain, RealInfo(*info).info, endpoint, context);
  if (rc != 0) return rc;
  tagged_kind.Take((*endpoint)->tagged, [](fi_ops_tagged& ops) {
    EfaLikeRail::real.tagged = ops;
    ops.send = &TaggedSend;
    ops.recv = &TaggedReceive;
  });
  rma_kind.Take((*endpoint)->rma, [](fi_ops_rma& ops) {
    EfaLikeRail::real.rma = ops;
    ops.writedata = &WriteWithData;
  });
  endpoint_kind.Take((*endpoint)->ops, [](fi_ops_ep& ops) {
    EfaLikeRail::real.endpoint = ops;
    ops.cancel = &Cancel;
  });
  WatchClose<&closed_endpoint>((*endpoint)->fid);
  const std::lock_guard<std::mutex> lock(mutex);
  const std::shared_ptr<EfaLikeRail>& rail = rails[*endpoint] = rails.at(domain);
  rail->Open(*endpoint);
  return 0;
}

int Register(fid* domain, const fi_mr_attr* attributes, uint64_t flags, fid_mr** region) {
  const int rc = mr_kind.real.regattr(domain, attributes, flags, region);
  if (rc != 0) return rc;
  WatchClose<&closed_region>((*region)->fid);
  const std::lock_guard<std::mutex> lock(mutex);
  regions[*region] = {static_cast<const char*>(attributes->mr_iov->iov_base), attributes->mr_iov->iov_len,
                      (*region)->mem_desc, rails.at(domain).get()};
  (*region)->mem_desc = *region;
  return 0;
}

int OpenDomain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  const int card = std::atoi(info->domain_attr->name + std::strlen("rdmap"));
  const int rc = fabric_kind.real.domain(fabric, RealInfo(*info).info, domain, context);
  if (rc != 0) return rc;
  domain_kind.Take((*domain)->ops, [](fi_ops_domain& ops) {
    ops.cq_open = &OpenQueue;
    ops.endpoint = &OpenEndpoint;
  });
  mr_kind.Take((*domain)->mr, [](fi_ops_mr& ops) { ops.regattr = &Register; });
  WatchClose<&closed_domain>((*domain)->fid);
  const int number = card % rails_of_rank;
  const bool slow = rails_of_rank > 1 && number == rails_of_rank - 1;
  const std::lock_guard<std::mutex> lock(mutex);
  rails[*domain] = std::make_shared<EfaLikeRail>(next_seed++, number, slow);
  return 0;
}

int OpenFabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  if (std::strcmp(attributes->prov_name, kEfa) != 0) return library.fabric(attributes, fabric, context);
  fi_fabric_attr of_tcp = *attributes;
  std::string name = kTcp;
  of_tcp.prov_name = name.data();
  const int rc = library.fabric(&of_tcp, fabric, context);
  if (rc != 0) return rc;
  fabric_kind.Take((*fabric)->ops, [](fi_ops_fabric& ops) { ops.domain = &OpenDomain; });
  return 0;
}

// A card like efa's, of what libfabric knows of loopback.
fi_info* Card(const fi_info& loopback, int number, uint64_t asked_caps) {
  fi_info* info = library.dupinfo(&loopback);
  Rename(info->fabric_attr->prov_name, kEfa);
  Rename(info->domain_attr->name, absl::StrCat("rdmap", number, "s0"));
  info->addr_format = FI_ADDR_EFA;
  if ((asked_caps & FI_RMA) == 0) info->caps &= ~uint64_t{FI_RMA};
  info->domain_attr->mr_mode |= FI_MR_LOCAL;
  info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  info->domain_attr->cq_data_size = 4;
  return info;
}

int GetInfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** found) {
  const bool of_efa = hints->fabric_attr->prov_name != nullptr && std::strcmp(hints->fabric_attr->prov_name, kEfa) == 0;
  if (!of_efa) return library.getinfo(version, node, service, flags, hints, found);
  fi_info* loopback = nullptr;
  const int rc = library.getinfo(version, node, service, flags, RealInfo(*hints).info, &loopback);
  if (rc != 0) return rc;
  *found = nullptr;
  for (int card = kRanksOfHost * rails_of_rank - 1; card >= 0; --card) {
    fi_info* info = Card(*loopback, card, hints->caps);
    info->next = *found;
    *found = info;
  }
  library.freeinfo(loopback);
  return 0;
}

}  // namespace

absl::Status EfaLikeFabric::Install(uint64_t seed, int rails_wanted) {
  DISTILL_ASSIGN_OR_RETURN(const FabricLibrary* const loaded, LoadFabricLibrary());
  setenv("FI_TCP_IFACE", "lo", 1);
  setenv("DISTILL_FABRIC_RAILS", absl::StrCat(rails_wanted).c_str(), 1);
  rails_of_rank = rails_wanted;
  next_seed = 1000 * seed;
  library = *loaded;
  const_cast<FabricLibrary*>(loaded)->getinfo = &GetInfo;
  const_cast<FabricLibrary*>(loaded)->fabric = &OpenFabric;
  return absl::OkStatus();
}

void EfaLikeFabric::FailSoon(int polls, int rail) {
  EfaLikeRail::failing_rail = rail;
  EfaLikeRail::polls_to_error = polls;
}

EfaLikeFabric::Counts EfaLikeFabric::counts() {
  const EfaLikeCounters& all = EfaLikeRail::counters;
  return {all.refused,    all.full_sends, all.full_receives, all.refused_writes,
          all.handshakes, all.overtaken,  all.held,          all.anybody,
          all.invalid,    all.cancelled,  all.truncated,     std::popcount(all.rails.load()),
          all.slow,       all.failed};
}

std::string EfaLikeFabric::Counts::Text() const {
  return absl::StrCat(rails, " rails, ", slow, " steps on a slow one, ", failed, " failed, ", refused,
                      " starts refused, ", full_sends, " as the queue of sends and ", full_receives,
                      " as that of receives was full, ", handshakes, " handshakes with ", refused_writes,
                      " writes refused before, ", overtaken, " messages overtaken, ", held,
                      " completions held back for a poll, ", anybody, " receives from anybody, ", invalid,
                      " with buffers that are not registered or too much data, ", cancelled, " cancelled, ", truncated,
                      " longer than their buffer");
}

}  // namespace distill::testing
