#include "libdistill/transport/fabric_open.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/check.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_library.h"
#include "libdistill/transport/fabric_nearness.h"

namespace distill {
namespace {

// tcp and verbs know connections only; the utility provider rxm makes reliable datagrams of them.
std::string FullName(const std::string& provider) {
  if (provider == "tcp" || provider == "verbs") return provider + ";ofi_rxm";
  return provider;
}

FabricInfo MakeHints(const FabricLibrary& library, const std::string& provider, uint64_t caps, bool device_memory) {
  FabricInfo hints(library.dupinfo(nullptr));
  DISTILL_CHECK(hints != nullptr, "fi_dupinfo: out of memory");
  hints->caps = caps;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  if (device_memory) {
    hints->caps |= FI_HMEM;
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->threading = FI_THREAD_SAFE;            // whoever frees memory closes its registration
  hints->fabric_attr->prov_name = strdup(provider.c_str());  // freed by fi_freeinfo
  return hints;
}

// What libfabric has of the provider, on the interface with the address `node` unless that is null; its return code.
int Ask(const FabricLibrary& library, const std::string& provider, const char* node, const FabricOptions& options,
        FabricInfo& answer) {
  const uint64_t flags = node == nullptr ? 0 : FI_SOURCE | FI_NUMERICHOST;
  const auto ask = [&](uint64_t caps) {
    fi_info* found = nullptr;
    const FabricInfo hints = MakeHints(library, provider, caps, options.device_memory);
    const int rc = library.getinfo(AskedFabricVersion(library.version()), node, nullptr, flags, hints.get(), &found);
    answer.reset(found);
    return rc;
  };
  constexpr uint64_t kMessages = FI_MSG | FI_TAGGED;
  // Before 2.2, keys of tcp's own memory regions collide unless remote memory access is asked for.
  if (absl::StartsWith(provider, "tcp")) return ask(kMessages | FI_RMA);
  return options.writes && ask(kMessages | FI_RMA) == 0 ? 0 : ask(kMessages);
}

bool IsLoopback(const fi_info& info) { return std::strcmp(info.domain_attr->name, "lo") == 0; }

// The link's rate as its driver gives it; 0: unknown.
int64_t SpeedOf(const fi_info& info) {
  std::ifstream file(absl::StrCat("/sys/class/net/", info.domain_attr->name, "/speed"));
  int64_t megabits = 0;
  return file >> megabits ? std::max<int64_t>(0, megabits) : 0;
}

// A rank's part of what the provider's cards send, of so many ranks.
double ShareOf(const std::vector<FabricInfo>& cards, const std::string& provider, size_t ranks) {
  constexpr double kEfaCard = 12.5;
  double all = 0;
  for (const FabricInfo& info : cards) {
    const bool says = info->nic != nullptr && info->nic->link_attr != nullptr && info->nic->link_attr->speed > 0;
    all += says ? static_cast<double>(info->nic->link_attr->speed) / 8e9 : provider == "efa" ? kEfaCard : 0;
  }
  return all / static_cast<double>(ranks);
}

// The first, and what else can carry a part of the same messages: the other NICs of a fabric made for it, or tcp's
// interfaces that are as fast as the first (a message waits for its slowest part) and speak the same kind of address.
std::vector<FabricInfo> Choose(const FabricLibrary& library, const fi_info& first, const fi_info* all, bool tcp,
                               int max_rails) {
  std::vector<FabricInfo> chosen;
  const auto take = [&](const fi_info& info) {
    chosen.emplace_back(library.dupinfo(&info));
    DISTILL_CHECK(chosen.back() != nullptr, "fi_dupinfo: out of memory");
  };
  take(first);
  for (const fi_info* info = all; info != nullptr; info = info->next) {
    if (max_rails > 0 && chosen.size() >= static_cast<size_t>(max_rails)) break;
    const bool taken = std::any_of(chosen.begin(), chosen.end(), [info](const FabricInfo& other) {
      return std::strcmp(info->domain_attr->name, other->domain_attr->name) == 0;
    });
    if (taken || info->addr_format != first.addr_format || IsLoopback(*info)) continue;
    if (std::strcmp(info->fabric_attr->prov_name, first.fabric_attr->prov_name) != 0) continue;
    if (tcp && (SpeedOf(*info) == 0 || SpeedOf(*info) != SpeedOf(first))) continue;
    take(*info);
  }
  return chosen;
}

// As sysfs names it, "0000:10:1b.0"; empty where the provider does not say.
std::string PciAddressOf(const fi_info& info) {
  if (info.nic == nullptr || info.nic->bus_attr == nullptr || info.nic->bus_attr->bus_type != FI_BUS_PCI) return "";
  const fi_pci_attr& pci = info.nic->bus_attr->attr.pci;
  return absl::StrCat(absl::Hex(pci.domain_id, absl::kZeroPad4), ":", absl::Hex(pci.bus_id, absl::kZeroPad2), ":",
                      absl::Hex(pci.device_id, absl::kZeroPad2), ".", absl::Hex(pci.function_id));
}

// Of all of the host's, those that are this rank's.
std::vector<FabricInfo> KeepOwn(std::vector<FabricInfo> found, const FabricOptions& options) {
  std::vector<std::string> cards;
  for (const FabricInfo& info : found) cards.push_back(PciAddressOf(*info));
  std::vector<std::vector<int>> distances;
  for (const RankSpot& rank : options.neighbours) distances.push_back(CardDistances(rank, cards, options.sysfs));
  std::vector<FabricInfo> kept;
  for (const size_t i : ChooseRails(distances, options.self)) {
    if (options.max_rails == 0 || kept.size() < static_cast<size_t>(options.max_rails)) {
      kept.push_back(std::move(found[i]));
    }
  }
  return kept;
}

}  // namespace

// What the version changes is efa's behaviour (fi_efa(7), and efa_rdm_get_use_device_rdma in its sources). From 1.18
// on:
//   - Device RDMA is used wherever the card has it. Below, it stays off on P4d's cards (0xefa0, 0xefa1), and with it
//     writes into a peer's memory, and FI_HMEM, which then needs RDMA.
//   - FI_HMEM for CUDA is offered also where the card cannot reach the GPU: efa then copies by CUDA calls of its own.
//     By default FI_OPT_FI_HMEM_P2P is "preferred" in place of "required". FabricDomain::ForbidCopies asks for what we
//     need.
//   - FI_OPT_EFA_USE_DEVICE_RDMA and FI_OPT_CUDA_API_PERMITTED can be set.
// No newer version than 1.18 is asked for: from 1.19 on providers read members of fi_mr_attr, and from 1.20 on of
// fi_domain_attr, that the structures of older headers do not have. In these structures 1.18 is the same as 1.17.
uint32_t AskedFabricVersion(uint32_t loaded) {
  return FI_VERSION_GE(loaded, FI_VERSION(1, 18)) ? FI_VERSION(1, 18) : FI_VERSION(1, 17);
}

void FabricInfoDeleter::operator()(fi_info* info) const { (*LoadFabricLibrary())->freeinfo(info); }

absl::Status FabricError(const std::string& what, long code) {
  const absl::StatusOr<const FabricLibrary*> library = LoadFabricLibrary();
  return absl::UnavailableError(absl::StrCat(what, ": ", (*library)->strerror(static_cast<int>(-code))));
}

absl::StatusOr<FoundFabrics> FindFabrics(const FabricOptions& options) {
  const std::vector<std::string> tried = options.provider.empty()
                                             ? std::vector<std::string>{"efa", "tcp;ofi_rxm"}
                                             : std::vector<std::string>{FullName(options.provider)};
  DISTILL_ASSIGN_OR_RETURN(const FabricLibrary* const library, LoadFabricLibrary());
  int rc = 0;
  for (const std::string& provider : tried) {
    const bool tcp = absl::StartsWith(provider, "tcp");
    const bool named = tcp && std::getenv("FI_TCP_IFACE") != nullptr;
    const bool by_address = tcp && !named && !options.local_address.empty();
    FabricInfo first;
    rc = Ask(*library, provider, by_address ? options.local_address.c_str() : nullptr, options, first);
    if (rc != 0) continue;
    FabricInfo all;
    const bool divided = !tcp && !options.neighbours.empty();
    if (!named && (options.max_rails != 1 || divided) && !IsLoopback(*first)) {
      (void)Ask(*library, provider, nullptr, options, all);
    }
    FoundFabrics found;
    found.rails = Choose(*library, *first, all.get(), tcp, divided ? 0 : options.max_rails);
    found.gigabytes_per_second = ShareOf(found.rails, provider, divided ? options.neighbours.size() : 1);
    if (divided) found.rails = KeepOwn(std::move(found.rails), options);
    return found;
  }
  if (options.device_memory) {
    return FabricError(
        absl::StrCat("libfabric's provider ", absl::StrJoin(tried, " or "), " takes no device memory here"), rc);
  }
  return FabricError(
      absl::StrCat("no fabric: libfabric has nothing for the provider ", absl::StrJoin(tried, " or "),
                   " here (fi_info -l lists the providers; DISTILL_FABRIC_PROVIDER and FI_TCP_IFACE choose)"),
      rc);
}

}  // namespace distill
