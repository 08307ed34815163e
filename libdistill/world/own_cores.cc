#include "libdistill/world/own_cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <compare>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "libdistill/world/control_groups.h"

namespace distill {
namespace {

constexpr int kMostCores = 8192;  // the kernel's own limit on x86

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CoreSet = std::unique_ptr<cpu_set_t, FreeSet>;

int NumberIn(const std::string& path) {
  int number = -1;
  return absl::SimpleAtoi(FirstLine(path), &number) ? number : -1;
}

// Where a processor is. Hyperthreads of one physical core differ in the number alone.
struct Place {
  int node = 0, package = 0, core = 0, number = 0;
  bool IsSameCore(const Place& other) const {
    return std::tie(node, package, core) == std::tie(other.node, other.package, other.core);
  }
  auto operator<=>(const Place&) const = default;
};

std::vector<Place> PlacesOf(const std::vector<int>& cores, const std::string& root) {
  std::vector<int> node_of(kMostCores, 0);
  for (const int node : ParseCores(FirstLine(root + "/sys/devices/system/node/online"))) {
    const std::string list = FirstLine(absl::StrCat(root, "/sys/devices/system/node/node", node, "/cpulist"));
    for (const int core : ParseCores(list)) node_of[core] = node;
  }
  std::vector<Place> places;
  for (const int number : cores) {
    const std::string folder = absl::StrCat(root, "/sys/devices/system/cpu/cpu", number, "/topology/");
    const int core = NumberIn(folder + "core_id");
    const int package = NumberIn(folder + "physical_package_id");
    places.push_back({node_of[number], std::max(0, package), core < 0 ? number : core, number});
  }
  std::sort(places.begin(), places.end());
  return places;
}

// Whole physical cores where there are enough of them for all parts, else single processors.
std::vector<int> Part(const std::vector<Place>& places, int part, int parts) {
  std::vector<size_t> begins;  // of physical cores
  for (size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || !places[i].IsSameCore(places[i - 1])) begins.push_back(i);
  }
  if (begins.size() < static_cast<size_t>(parts)) {
    begins.resize(places.size());
    for (size_t i = 0; i < places.size(); ++i) begins[i] = i;
  }
  const size_t units = begins.size(), p = static_cast<size_t>(part), n = static_cast<size_t>(parts);
  if (units % n != 0 && units < 2 * n) return {};
  begins.push_back(places.size());
  std::vector<int> cores;
  for (size_t i = begins[p * units / n]; i < begins[(p + 1) * units / n]; ++i) cores.push_back(places[i].number);
  std::sort(cores.begin(), cores.end());
  return cores;
}

bool Overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int core) { return std::binary_search(b.begin(), b.end(), core); });
}

}  // namespace

std::vector<int> AllowedCores() {
  const CoreSet set(CPU_ALLOC(kMostCores));
  const size_t bytes = CPU_ALLOC_SIZE(kMostCores);
  std::vector<int> cores;
  if (set == nullptr || sched_getaffinity(0, bytes, set.get()) != 0) return cores;
  for (int core = 0; core < kMostCores; ++core) {
    if (CPU_ISSET_S(core, bytes, set.get())) cores.push_back(core);
  }
  return cores;
}

bool RankCores::HasNear() const { return Overlap(cores, near); }

std::vector<int> RankCores::Wanted() const {
  std::vector<int> both;
  std::set_intersection(cores.begin(), cores.end(), near.begin(), near.end(), std::back_inserter(both));
  return both.empty() ? cores : both;
}

PciPlace FindPciPlace(const std::string& address, const std::string& root) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  char rest = 0;
  if (std::sscanf(address.c_str(), "%x:%x:%x.%x%c", &domain, &bus, &device, &function, &rest) != 4) return {};
  const std::string folder =
      absl::StrFormat("%s/sys/bus/pci/devices/%04x:%02x:%02x.%x/", root, domain, bus, device, function);
  return {NumberIn(folder + "numa_node"), ParseCores(FirstLine(folder + "local_cpulist"))};
}

OwnCores DivideCores(const std::vector<RankCores>& ranks, int rank, const std::string& root) {
  const RankCores& mine = ranks[static_cast<size_t>(rank)];
  const std::vector<int> wanted = mine.Wanted();
  const int processors = static_cast<int>(wanted.size());
  // Where the cores are not divided.
  OwnCores own{.cores = wanted == mine.cores ? std::vector<int>() : wanted, .threads = 0};
  int sharing = 0, before = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].host_id != mine.host_id) continue;
    const std::vector<int> theirs = ranks[i].Wanted();
    const bool same = theirs == wanted;
    if (theirs.empty()) return own;  // they may be any
    if (!same && Overlap(theirs, wanted)) return own;
    sharing += same ? 1 : 0;
    before += same && static_cast<int>(i) < rank ? 1 : 0;
  }
  if (processors == 0) return {};
  own.threads = std::max(1, processors / sharing);
  if (sharing == 1 || sharing > processors) return own;
  std::vector<int> part = Part(PlacesOf(wanted, root), before, sharing);
  if (part.empty()) return own;
  own.threads = std::min(own.threads, static_cast<int>(part.size()));
  own.cores = std::move(part);
  return own;
}

absl::Status BindThread(const std::vector<int>& cores) {
  const CoreSet set(CPU_ALLOC(kMostCores));
  const size_t bytes = CPU_ALLOC_SIZE(kMostCores);
  if (set == nullptr) return absl::ResourceExhaustedError("no memory for a set of cores");
  CPU_ZERO_S(bytes, set.get());
  for (const int core : cores) CPU_SET_S(core, bytes, set.get());
  if (sched_setaffinity(0, bytes, set.get()) == 0) return absl::OkStatus();
  const std::string message = absl::StrCat("cannot bind to the cores ", FormatCores(cores), ": ", std::strerror(errno));
  return errno == EPERM ? absl::PermissionDeniedError(message) : absl::InvalidArgumentError(message);
}

std::string FormatCores(const std::vector<int>& cores) {
  std::string list;
  for (size_t i = 0; i < cores.size();) {
    size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    absl::StrAppend(&list, list.empty() ? "" : ",", cores[i]);
    if (end > i + 1) absl::StrAppend(&list, "-", cores[end - 1]);
    i = end;
  }
  return list;
}

std::vector<int> ParseCores(const std::string& list) {
  std::vector<int> cores;
  for (absl::string_view range : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) return {};
    last = first;
    if (!ends.second.empty() && !absl::SimpleAtoi(ends.second, &last)) return {};
    if (first < 0 || last < first || last >= kMostCores) return {};
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  return cores;
}

}  // namespace distill
