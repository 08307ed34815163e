#include "libdistill/transport/fabric_nearness.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/world/control_groups.h"
#include "libdistill/world/own_cores.h"

namespace distill {
namespace {

// Above any depth of a PCI tree.
constexpr int kSameNode = 1000;
constexpr int kElsewhere = 2000;

std::string FolderOf(const std::string& address, const std::string& sysfs) {
  return absl::StrCat(sysfs, "/bus/pci/devices/", absl::AsciiStrToLower(address));
}

// The way to a PCI device from the root of its tree: {"pci0000:10", "0000:10:1b.0"}; empty where it is not known.
std::vector<std::string> WayTo(const std::string& address, const std::string& sysfs) {
  std::error_code error;
  const std::filesystem::path place = std::filesystem::canonical(FolderOf(address, sysfs), error);
  if (error || address.empty()) return {};
  std::vector<std::string> way = absl::StrSplit(place.string(), '/', absl::SkipEmpty());
  const auto root = std::find_if(way.begin(), way.end(), [](const std::string& part) {
    return absl::StartsWith(part, "pci") && absl::StrContains(part, ':');
  });
  way.erase(way.begin(), root);
  return way;
}

// -1: the kernel does not say.
int NodeOf(const std::string& address, const std::string& sysfs) {
  int node = -1;
  return absl::SimpleAtoi(FirstLine(FolderOf(address, sysfs) + "/numa_node"), &node) ? node : -1;
}

int DistanceFromGpu(const std::string& gpu, const std::string& card, const std::string& sysfs) {
  const std::vector<std::string> from = WayTo(gpu, sysfs), to = WayTo(card, sysfs);
  if (from.empty()) return 0;
  const auto parted = std::mismatch(from.begin(), from.end(), to.begin(), to.end());
  if (parted.first != from.begin()) return static_cast<int>(from.end() - parted.first);
  const int node = NodeOf(gpu, sysfs);
  return !to.empty() && node >= 0 && node == NodeOf(card, sysfs) ? kSameNode : kElsewhere;
}

// The NUMA nodes of these cores.
std::vector<int> NodesOf(const std::vector<int>& cores, const std::string& sysfs) {
  std::vector<int> nodes;
  for (const int node : ParseCores(FirstLine(sysfs + "/devices/system/node/online"))) {
    const std::vector<int> there =
        ParseCores(FirstLine(absl::StrCat(sysfs, "/devices/system/node/node", node, "/cpulist")));
    const bool of_rank = std::any_of(there.begin(), there.end(), [&](int core) {
      return std::find(cores.begin(), cores.end(), core) != cores.end();
    });
    if (of_rank) nodes.push_back(node);
  }
  return nodes;
}

std::vector<size_t> Nearest(const std::vector<int>& distances) {
  std::vector<size_t> nearest;
  for (size_t card = 0; card < distances.size(); ++card) {
    if (distances[card] == *std::min_element(distances.begin(), distances.end())) nearest.push_back(card);
  }
  return nearest;
}

}  // namespace

std::vector<int> CardDistances(const RankSpot& rank, const std::vector<std::string>& cards, const std::string& sysfs) {
  const std::vector<int> nodes = NodesOf(rank.cores, sysfs);
  std::vector<int> distances;
  for (const std::string& card : cards) {
    if (!rank.gpu.empty()) {
      distances.push_back(DistanceFromGpu(rank.gpu, card, sysfs));
      continue;
    }
    const int node = NodeOf(card, sysfs);
    const bool near = nodes.empty() || node < 0 || std::find(nodes.begin(), nodes.end(), node) != nodes.end();
    distances.push_back(near ? 0 : kElsewhere);
  }
  return distances;
}

std::vector<size_t> ChooseRails(const std::vector<std::vector<int>>& distances, size_t self) {
  const std::vector<size_t> nearest = Nearest(distances[self]);
  size_t sharing = 0, before = 0;
  for (size_t rank = 0; rank < distances.size(); ++rank) {
    if (Nearest(distances[rank]) != nearest) continue;
    before += rank < self ? 1 : 0;
    ++sharing;
  }
  if (nearest.empty()) return {};
  const size_t begin = before * nearest.size() / sharing;
  const size_t end = std::max(begin + 1, (before + 1) * nearest.size() / sharing);
  return {nearest.begin() + static_cast<std::ptrdiff_t>(begin), nearest.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace distill
