#include "libdistill/transport/fabric_open.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/check.h"

namespace distill {
namespace {

constexpr uint32_t kVersion = FI_VERSION(1, 17);

// tcp and verbs know connections only; the utility provider rxm makes reliable datagrams of them.
std::string FullName(const std::string& provider) {
  if (provider == "tcp" || provider == "verbs") return provider + ";ofi_rxm";
  return provider;
}

FabricInfo MakeHints(const std::string& provider) {
  FabricInfo hints(fi_allocinfo());
  DISTILL_CHECK(hints != nullptr, "fi_allocinfo: out of memory");
  hints->caps = FI_MSG | FI_TAGGED;
  // Before 2.2, keys of tcp's own memory regions collide unless remote memory access is asked for.
  if (absl::StartsWith(provider, "tcp")) hints->caps |= FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->fabric_attr->prov_name = strdup(provider.c_str());  // freed by fi_freeinfo
  return hints;
}

}  // namespace

void FabricInfoDeleter::operator()(fi_info* info) const { fi_freeinfo(info); }

absl::Status FabricError(const std::string& what, long code) {
  return absl::UnavailableError(absl::StrCat(what, ": ", fi_strerror(static_cast<int>(-code))));
}

absl::StatusOr<FabricInfo> FindFabric(const FabricOptions& options) {
  const std::vector<std::string> tried = options.provider.empty()
                                             ? std::vector<std::string>{"efa", "tcp;ofi_rxm"}
                                             : std::vector<std::string>{FullName(options.provider)};
  int rc = 0;
  for (const std::string& provider : tried) {
    const bool by_address =
        absl::StartsWith(provider, "tcp") && !options.local_address.empty() && std::getenv("FI_TCP_IFACE") == nullptr;
    const char* node = by_address ? options.local_address.c_str() : nullptr;
    fi_info* found = nullptr;
    rc = fi_getinfo(kVersion, node, nullptr, by_address ? FI_SOURCE | FI_NUMERICHOST : 0, MakeHints(provider).get(),
                    &found);
    if (rc == 0) return FabricInfo(found);
  }
  return FabricError(
      absl::StrCat("no fabric: libfabric has nothing for the provider ", absl::StrJoin(tried, " or "),
                   " here (fi_info -l lists the providers; DISTILL_FABRIC_PROVIDER and FI_TCP_IFACE choose)"),
      rc);
}

}  // namespace distill
