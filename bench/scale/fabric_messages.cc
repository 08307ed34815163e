// Objects of libfabric's have tables of functions that all of their kind share. A copy with one function changed takes
// the table's place, from the fabric to its domains to their endpoints.
#include "bench/scale/fabric_messages.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <atomic>

#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_library.h"

namespace distill {
namespace {

// A table of libfabric's own, and the copy that takes its place.
template <typename Functions>
struct Table {
  Functions own;
  Functions ours;
  bool copied = false;

  // Makes the object's table ours. All objects of a kind have the same one, so that later ones leave it as it is: an
  // earlier one may be in use.
  void Replace(Functions*& of_object, void (*change)(Functions& functions)) {
    if (!copied) {
      own = ours = *of_object;
      change(ours);
      copied = true;
    }
    of_object = &ours;
  }
};

FabricLibrary library_functions;
Table<fi_ops_fabric> fabrics;
Table<fi_ops_domain> domains;
Table<fi_ops_tagged> senders;
std::atomic<int64_t> messages{0}, bytes_sent{0};

ssize_t Send(fid_ep* endpoint, const void* data, size_t bytes, void* descriptor, fi_addr_t peer, uint64_t tag,
             void* context) {
  const ssize_t rc = senders.own.send(endpoint, data, bytes, descriptor, peer, tag, context);
  if (rc != 0) return rc;
  messages.fetch_add(1, std::memory_order_relaxed);
  bytes_sent.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  return 0;
}

int OpenEndpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  const int rc = domains.own.endpoint(domain, info, endpoint, context);
  if (rc != 0) return rc;
  senders.Replace((*endpoint)->tagged, [](fi_ops_tagged& functions) { functions.send = &Send; });
  return 0;
}

int OpenDomain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  const int rc = fabrics.own.domain(fabric, info, domain, context);
  if (rc != 0) return rc;
  domains.Replace((*domain)->ops, [](fi_ops_domain& functions) { functions.endpoint = &OpenEndpoint; });
  return 0;
}

int OpenFabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  const int rc = library_functions.fabric(attributes, fabric, context);
  if (rc != 0) return rc;
  fabrics.Replace((*fabric)->ops, [](fi_ops_fabric& functions) { functions.domain = &OpenDomain; });
  return 0;
}

}  // namespace

absl::Status CountFabricMessages() {
  DISTILL_ASSIGN_OR_RETURN(const FabricLibrary* const library, LoadFabricLibrary());
  library_functions = *library;
  const_cast<FabricLibrary*>(library)->fabric = &OpenFabric;
  return absl::OkStatus();
}

FabricMessages SentOverFabric() { return {messages.load(), bytes_sent.load()}; }

}  // namespace distill
