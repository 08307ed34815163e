// Which network cards each rank of a host uses, on trees of sysfs in the shape of the hosts that libdistill is made
// for: what hangs behind which switch, at which NUMA node. (The numbers of P5's and P5en's buses are made up.)
#include "libdistill/transport/fabric_nearness.h"

#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using Rails = std::vector<std::vector<size_t>>;

struct FakeHost {
  testing::TempFolder sysfs;
  std::vector<std::string> gpus, cards;  // PCI addresses
  std::vector<std::vector<int>> cores;   // of each NUMA node

  // `way`: from its PCI root on; the last part is the address.
  std::string Add(const std::string& way, int node) {
    const std::string address = way.substr(way.rfind('/') + 1);
    sysfs.Write(absl::StrCat("devices/", way, "/numa_node"), absl::StrCat(node, "\n"));
    std::filesystem::create_directories(sysfs / "bus/pci/devices");
    std::filesystem::create_directory_symlink(absl::StrCat("../../../devices/", way),
                                              sysfs / absl::StrCat("bus/pci/devices/", address));
    return address;
  }
  void AddNodes(int nodes, int cores_each) {
    sysfs.Write("devices/system/node/online", absl::StrCat("0-", nodes - 1, "\n"));
    for (int node = 0; node < nodes; ++node) {
      const int begin = node * cores_each;
      sysfs.Write(absl::StrCat("devices/system/node/node", node, "/cpulist"),
                  absl::StrCat(begin, "-", begin + cores_each - 1, "\n"));
      for (cores.emplace_back(); static_cast<int>(cores.back().size()) < cores_each;) {
        cores.back().push_back(begin + static_cast<int>(cores.back().size()));
      }
    }
  }
};

// Two GPUs and a card on each of four buses.
void BuildP4d(FakeHost& host) {
  host.AddNodes(2, 48);
  int bus = 0;
  for (const std::string number : {"10", "20", "90", "a0"}) {
    const int node = bus++ / 2;
    const std::string root = absl::StrCat("pci0000:", number, "/0000:", number);
    host.cards.push_back(host.Add(root + ":1b.0", node));
    for (const char* gpu : {":1c.0", ":1d.0"}) host.gpus.push_back(host.Add(root + gpu, node));
  }
}

// Eight switches, each with a GPU and so many cards, each device behind a port of its own; two switches on a root.
void BuildP5(FakeHost& host, int cards_each) {
  host.AddNodes(2, 96);
  for (int gpu = 0; gpu < 8; ++gpu) {
    const int root = 0x40 + 0x20 * (gpu / 2), bus = root + 0x10 * (gpu % 2);
    const std::string above =
        absl::StrFormat("pci0000:%02x/0000:%02x:%02x.0/0000:%02x:00.0", root, root, 1 + gpu % 2, bus + 1);
    const auto add = [&](int port) {
      return host.Add(absl::StrFormat("%s/0000:%02x:%02x.0/0000:%02x:00.0", above, bus + 2, port, bus + 3 + port),
                      gpu / 4);
    };
    for (int port = 0; port < cards_each; ++port) host.cards.push_back(add(port));
    host.gpus.push_back(add(cards_each));
  }
}

// All on one bus.
void BuildG5(FakeHost& host) {
  host.AddNodes(2, 96);
  host.cards.push_back(host.Add("pci0000:00/0000:00:1a.0", 0));
  for (int gpu = 0; gpu < 8; ++gpu)
    host.gpus.push_back(host.Add(absl::StrFormat("pci0000:00/0000:00:%02x.0", 16 + gpu), gpu / 4));
}

std::vector<RankSpot> OnGpus(const FakeHost& host, size_t ranks) {
  std::vector<RankSpot> spots;
  for (size_t rank = 0; rank < ranks; ++rank) spots.push_back({host.gpus[rank], host.cores[0]});
  return spots;
}

// An eighth of the cores each, which for rank r are those of the NUMA node `node_of(r)`.
std::vector<RankSpot> OnCores(const FakeHost& host, int (*node_of)(size_t)) {
  std::vector<RankSpot> spots;
  std::map<int, size_t> taken;
  for (size_t rank = 0; rank < 8; ++rank) {
    const int node = node_of(rank);
    const std::vector<int>& all = host.cores[static_cast<size_t>(node)];
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(taken[node]++ * (all.size() / 4));
    spots.push_back({"", {begin, begin + static_cast<std::ptrdiff_t>(all.size() / 4)}});
  }
  return spots;
}

Rails RailsOf(const std::vector<RankSpot>& ranks, const std::vector<std::string>& cards, const std::string& sysfs) {
  std::vector<std::vector<int>> distances;
  for (const RankSpot& rank : ranks) distances.push_back(CardDistances(rank, cards, sysfs));
  Rails rails;
  for (size_t rank = 0; rank < ranks.size(); ++rank) rails.push_back(ChooseRails(distances, rank));
  return rails;
}

Rails RailsOf(const std::vector<RankSpot>& ranks, const FakeHost& host) {
  return RailsOf(ranks, host.cards, host.sysfs.path());
}

// How many ranks use each card.
std::vector<int> Users(const Rails& rails, size_t cards) {
  std::vector<int> users(cards);
  for (const std::vector<size_t>& of_rank : rails) {
    for (const size_t card : of_rank) ++users[card];
  }
  return users;
}

int InBlocks(size_t rank) { return static_cast<int>(rank / 4); }
int Alternating(size_t rank) { return static_cast<int>(rank % 2); }

TEST_CASE("on P4d a rank uses the card behind its GPU's switch, which it shares with one other") {
  FakeHost host;
  BuildP4d(host);
  CHECK(RailsOf(OnGpus(host, 8), host) == Rails{{0}, {0}, {1}, {1}, {2}, {2}, {3}, {3}});
  CHECK(RailsOf(OnCores(host, &InBlocks), host) == Rails{{0}, {0}, {1}, {1}, {2}, {2}, {3}, {3}});
  CHECK(Users(RailsOf(OnCores(host, &Alternating), host), 4) == std::vector<int>(4, 2));
}

TEST_CASE("on P5 each of 8 ranks uses 4 of the 32 cards, on P5en 2 of 16, and together they use all") {
  const int each = GENERATE(4, 2);
  CAPTURE(each);
  FakeHost host;
  BuildP5(host, each);
  const size_t cards = 8 * static_cast<size_t>(each);
  REQUIRE(host.cards.size() == cards);
  const Rails on_gpus = RailsOf(OnGpus(host, 8), host);
  for (size_t rank = 0; rank < 8; ++rank) {
    for (size_t rail = 0; rail < static_cast<size_t>(each); ++rail) {
      CHECK(on_gpus[rank][rail] == rank * static_cast<size_t>(each) + rail);
    }
  }
  for (const Rails& rails :
       {on_gpus, RailsOf(OnCores(host, &InBlocks), host), RailsOf(OnCores(host, &Alternating), host)}) {
    for (const std::vector<size_t>& of_rank : rails) CHECK(of_rank.size() == static_cast<size_t>(each));
    CHECK(Users(rails, cards) == std::vector<int>(cards, 1));
  }
  // Cards near no rank stay unused; a rank by itself, on all cores, uses all.
  CHECK(RailsOf(OnGpus(host, 4), host) == Rails(on_gpus.begin(), on_gpus.begin() + 4));
  std::vector<int> all_cores = host.cores[0];
  all_cores.insert(all_cores.end(), host.cores[1].begin(), host.cores[1].end());
  CHECK(RailsOf({{"", all_cores}}, host)[0].size() == cards);
  CHECK(RailsOf({{"", host.cores[1]}}, host)[0].size() == cards / 2);
}

TEST_CASE("on g5 every rank uses the one card") {
  FakeHost host;
  BuildG5(host);
  CHECK(RailsOf(OnGpus(host, 8), host) == Rails(8, {0}));
  CHECK(RailsOf(OnCores(host, &InBlocks), host) == Rails(8, {0}));
}

TEST_CASE("where nothing is known of the cards or of the ranks, they are divided all the same") {
  FakeHost host;
  BuildP5(host, 4);
  const testing::TempFolder nothing;
  for (const auto& ranks : {OnGpus(host, 8), OnCores(host, &InBlocks), std::vector<RankSpot>(8)}) {
    CHECK(Users(RailsOf(ranks, host.cards, nothing.path()), 32) == std::vector<int>(32, 1));
    CHECK(RailsOf(ranks, std::vector<std::string>(1), nothing.path()) == Rails(8, {0}));
  }
  CHECK(Users(RailsOf(std::vector<RankSpot>(8), host), 32) == std::vector<int>(32, 1));
}

TEST_CASE("a GPU's distance to a card is the way up to their switch, then the NUMA node") {
  FakeHost host;
  BuildP5(host, 4);
  const std::vector<int> distances = CardDistances({host.gpus[0], {}}, host.cards, host.sysfs.path());
  CHECK(distances[0] < distances[4]);  // behind the next switch of the same root
  CHECK(distances[4] < distances[8]);  // another root of the same node
  CHECK(distances[8] == distances[15]);
  CHECK(distances[8] < distances[16]);                                                                // the other node
  CHECK(distances[16] == CardDistances({host.gpus[0], {}}, {"0000:ff:00.0"}, host.sysfs.path())[0]);  // not known
}

TEST_CASE("ranks to which the same cards are nearest divide them") {
  struct Row {
    std::vector<std::vector<int>> distances;
    Rails rails;
  };
  const std::vector<Row> rows = {
      {{{0, 0, 0}}, {{0, 1, 2}}},
      {{{5, 2, 2}}, {{1, 2}}},
      {{{0, 0, 0}, {0, 0, 0}}, {{0}, {1, 2}}},                           // at most one more
      {{{1, 1, 3, 3}, {3, 3, 1, 1}, {2, 2, 9, 9}}, {{0}, {2, 3}, {1}}},  // the third divides with the first
      {{{0, 0}, {0, 0}, {0, 0}}, {{0}, {0}, {1}}},                       // fewer cards than ranks
      {{{0, 1, 1}, {0, 1, 1}}, {{0}, {0}}},                              // one card is nearest to both
      {{{0, 0, 1}, {1, 0, 0}}, {{0, 1}, {1, 2}}},                        // different ones: not divided
      {{{}, {}}, {{}, {}}},
  };
  for (const Row& row : rows) {
    for (size_t rank = 0; rank < row.rails.size(); ++rank) CHECK(ChooseRails(row.distances, rank) == row.rails[rank]);
  }
}

}  // namespace
}  // namespace distill
