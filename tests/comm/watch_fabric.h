// Puts functions of a test's own in the place of libfabric's, for good: in a process of the test's own. Each kind of
// object has tables of functions that it shares with all of its kind; copies of them, changed, take their place.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "absl/status/status.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_library.h"

namespace distill::testing {

// What is called with each object that libfabric has opened, which it may change; null: nothing.
struct FabricWatch {
  void (*on_domain)(fid_domain& domain) = nullptr;
  void (*on_endpoint)(fid_ep& endpoint) = nullptr;
  void (*on_events)(fid_eq& events) = nullptr;
  // With what a domain is opened with before that, and an endpoint after it.
  void (*before_domain)(fi_info& info) = nullptr;
  void (*after_endpoint)(fi_info& info) = nullptr;
};

class WatchedFabric {
 public:
  // Where the library's own functions are from now on.
  static inline FabricLibrary real;

  // `getinfo` takes the place of the library's where it is not null.
  [[nodiscard]] static absl::Status Watch(const FabricWatch& watch,
                                          decltype(FabricLibrary::getinfo) getinfo = nullptr) {
    DISTILL_ASSIGN_OR_RETURN(const FabricLibrary* const library, LoadFabricLibrary());
    real = *library;
    watch_ = watch;
    if (getinfo != nullptr) const_cast<FabricLibrary*>(library)->getinfo = getinfo;
    const_cast<FabricLibrary*>(library)->fabric = &OpenFabric;
    return absl::OkStatus();
  }

 private:
  static int OpenFabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
    const int rc = real.fabric(attributes, fabric, context);
    if (rc != 0) return rc;
    real_fabric_ops_ = fabric_ops_ = *(*fabric)->ops;
    fabric_ops_.domain = &OpenDomain;
    fabric_ops_.eq_open = &OpenEvents;
    (*fabric)->ops = &fabric_ops_;
    return 0;
  }

  static int OpenDomain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
    if (watch_.before_domain != nullptr) watch_.before_domain(*info);
    const int rc = real_fabric_ops_.domain(fabric, info, domain, context);
    if (rc != 0) return rc;
    real_domain_ops_ = domain_ops_ = *(*domain)->ops;
    domain_ops_.endpoint = &OpenEndpoint;
    (*domain)->ops = &domain_ops_;
    if (watch_.on_domain != nullptr) watch_.on_domain(**domain);
    return 0;
  }

  static int OpenEvents(fid_fabric* fabric, fi_eq_attr* attributes, fid_eq** events, void* context) {
    const int rc = real_fabric_ops_.eq_open(fabric, attributes, events, context);
    if (rc == 0 && watch_.on_events != nullptr) watch_.on_events(**events);
    return rc;
  }

  static int OpenEndpoint(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
    const int rc = real_domain_ops_.endpoint(domain, info, endpoint, context);
    if (rc == 0 && watch_.on_endpoint != nullptr) watch_.on_endpoint(**endpoint);
    if (rc == 0 && watch_.after_endpoint != nullptr) watch_.after_endpoint(*info);
    return rc;
  }

  static inline FabricWatch watch_;
  static inline fi_ops_fabric fabric_ops_, real_fabric_ops_;
  static inline fi_ops_domain domain_ops_, real_domain_ops_;
};

}  // namespace distill::testing
