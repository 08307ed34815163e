#include "libdistill/world/own_cores.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

std::vector<RankCores> Alike(int ranks, const std::string& cores) {
  return std::vector<RankCores>(static_cast<size_t>(ranks), RankCores{"host", ParseCores(cores)});
}

std::string Of(const std::vector<RankCores>& ranks, int rank, const std::string& root = "/nowhere") {
  const OwnCores own = DivideCores(ranks, rank, root);
  return absl::StrCat(FormatCores(own.cores), " with ", own.threads);
}

// Two sockets of four cores with two hyperthreads, numbered as Linux does: all first threads, then all second ones.
void WriteTwoSockets(const TempFolder& root) {
  root.Write("sys/devices/system/node/online", "0-1");
  root.Write("sys/devices/system/node/node0/cpulist", "0-3,8-11");
  root.Write("sys/devices/system/node/node1/cpulist", "4-7,12-15");
  for (int number = 0; number < 16; ++number) {
    const std::string folder = absl::StrCat("sys/devices/system/cpu/cpu", number, "/topology/");
    root.Write(folder + "core_id", absl::StrCat(number % 4));
    root.Write(folder + "physical_package_id", absl::StrCat(number % 8 / 4));
  }
}

}  // namespace

TEST_CASE("lists of cores are read and written as the kernel has them") {
  for (const char* list : {"", "0", "0-3", "1,3,5", "0-3,8-11,64"}) CHECK(FormatCores(ParseCores(list)) == list);
  for (const char* bad : {"x", "3-1", "-1", "0-99999", "1,,x"}) CHECK(ParseCores(bad).empty());
}

TEST_CASE("ranks with the same cores divide them, in order") {
  CHECK(Of(Alike(2, "0-7"), 0) == "0-3 with 4");
  CHECK(Of(Alike(2, "0-7"), 1) == "4-7 with 4");
  CHECK(Of(Alike(2, "0-1"), 1) == "1 with 1");
  CHECK(Of(Alike(3, "2-9"), 0) == "2-3 with 2");
  CHECK(Of(Alike(3, "2-9"), 1) == "4-6 with 2");
  CHECK(Of(Alike(3, "2-9"), 2) == "7-9 with 2");
  CHECK(Of(Alike(1, "0-7"), 0) == " with 8");
}

TEST_CASE("ranks of which some would have one core and others two share them all") {
  for (int rank = 0; rank < 6; ++rank) CHECK(Of(Alike(6, "0-7"), rank) == " with 1");
  CHECK(Of(Alike(2, "0-2"), 0) == " with 1");
  CHECK(Of(Alike(4, "0-8"), 3) == "6-8 with 2");
}

TEST_CASE("more ranks than cores share them all") {
  for (const int rank : {0, 1, 2}) CHECK(Of(Alike(3, "0-1"), rank) == " with 1");
}

TEST_CASE("a rank that was bound already stays where it is, and has all of it") {
  std::vector<RankCores> ranks = Alike(4, "0-1");
  ranks[1].cores = ParseCores("2-5");
  ranks[2].host_id = "other";
  CHECK(Of(ranks, 1) == " with 4");
  CHECK(Of(ranks, 2) == " with 2");
  CHECK(Of(ranks, 0) == "0 with 1");
  CHECK(Of(ranks, 3) == "1 with 1");
}

TEST_CASE("cores that overlap otherwise are left alone") {
  std::vector<RankCores> ranks = Alike(3, "0-7");
  ranks[2].cores = ParseCores("4-5");
  for (const int rank : {0, 1, 2}) CHECK(Of(ranks, rank) == " with 0");
  CHECK(Of(Alike(2, ""), 0) == " with 0");
}

TEST_CASE("hyperthreads of a core, and cores of a node, stay together") {
  const TempFolder root;
  WriteTwoSockets(root);
  CHECK(Of(Alike(2, "0-15"), 0, root.path()) == "0-3,8-11 with 8");
  CHECK(Of(Alike(2, "0-15"), 1, root.path()) == "4-7,12-15 with 8");
  CHECK(Of(Alike(4, "0-15"), 1, root.path()) == "2-3,10-11 with 4");
  CHECK(Of(Alike(3, "0-15"), 0, root.path()) == "0-1,8-9 with 4");
  // More ranks than physical cores: then single hyperthreads.
  CHECK(Of(Alike(16, "0-15"), 1, root.path()) == "8 with 1");
  // Within what a batch system left.
  CHECK(Of(Alike(2, "2-5"), 1, root.path()) == "4-5 with 2");
}

TEST_CASE("a device's place is what the kernel says of its PCI address, however that is written") {
  const TempFolder root;
  root.Write("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1");
  root.Write("sys/bus/pci/devices/0000:3b:00.0/local_cpulist", "4-7,12-15");
  root.Write("sys/bus/pci/devices/0001:a0:1c.3/numa_node", "-1");
  root.Write("sys/bus/pci/devices/0001:a0:1c.3/local_cpulist", "0-15");
  for (const char* address : {"0000:3b:00.0", "0000:3B:00.0", "00000000:3B:00.0"}) {
    const PciPlace place = FindPciPlace(address, root.path());
    CHECK(place.node == 1);
    CHECK(FormatCores(place.cores) == "4-7,12-15");
  }
  CHECK(FindPciPlace("0001:A0:1C.3", root.path()).node == -1);
  CHECK(FormatCores(FindPciPlace("0001:A0:1C.3", root.path()).cores) == "0-15");
  for (const char* none : {"", "GPU 0", "0000:3b:00", "0000:3b:00.0/..", "0000:3c:00.0"}) {
    const PciPlace place = FindPciPlace(none, root.path());
    CHECK(place.node == -1);
    CHECK(place.cores.empty());
  }
}

TEST_CASE("ranks divide the cores near their GPUs") {
  const TempFolder root;
  WriteTwoSockets(root);
  std::vector<RankCores> ranks = Alike(4, "0-15");
  // GPUs in an order that is not that of the nodes.
  for (const size_t rank : {0, 3}) ranks[rank].near = ParseCores("4-7,12-15");
  for (const size_t rank : {1, 2}) ranks[rank].near = ParseCores("0-3,8-11");
  CHECK(Of(ranks, 0, root.path()) == "4-5,12-13 with 4");
  CHECK(Of(ranks, 1, root.path()) == "0-1,8-9 with 4");
  CHECK(Of(ranks, 2, root.path()) == "2-3,10-11 with 4");
  CHECK(Of(ranks, 3, root.path()) == "6-7,14-15 with 4");
  // One GPU alone on its node has all of that, also where it is the host's only rank.
  CHECK(Of({ranks[0], ranks[1]}, 0, root.path()) == "4-7,12-15 with 8");
  CHECK(Of({ranks[0]}, 0, root.path()) == "4-7,12-15 with 8");
  // More ranks than cores of the node share it, and stay off the other one.
  std::vector<RankCores> many(9, ranks[1]);
  CHECK(Of(many, 8, root.path()) == "0-3,8-11 with 1");
}

TEST_CASE("what a launcher gave a rank with a GPU is narrowed, and never widened") {
  std::vector<RankCores> ranks = Alike(2, "0-7");
  ranks[0].near = ParseCores("0-3");
  ranks[1].near = ParseCores("4-7");
  ranks[0].cores = ParseCores("2-5");  // half of it near
  CHECK(ranks[0].HasNear());
  CHECK(FormatCores(ranks[0].Wanted()) == "2-3");
  CHECK(Of(ranks, 0) == "2-3 with 2");
  CHECK(Of(ranks, 1) == "4-7 with 4");
  ranks[0].cores = ParseCores("6-7");  // all of it far
  CHECK_FALSE(ranks[0].HasNear());
  CHECK(Of(ranks, 0) == " with 0");     // where it was put, beside another rank
  CHECK(Of(ranks, 1) == "4-7 with 0");  // near its GPU, with whom it is not known to divide
  // One node for both, as taskset gave it: they divide that, though one GPU is far.
  for (RankCores& rank : ranks) rank.cores = ParseCores("0-3");
  CHECK(Of(ranks, 0) == "0-1 with 2");
  CHECK(Of(ranks, 1) == "2-3 with 2");
  // Nothing is known of what is near: as without GPUs.
  for (RankCores& rank : ranks) rank.near.clear();
  CHECK(Of(ranks, 1) == "2-3 with 2");
}

TEST_CASE("eight GPUs of a host like AWS's P4d have twelve processors each, on their own node") {
  const TempFolder root;
  root.Write("sys/devices/system/node/online", "0-1");
  root.Write("sys/devices/system/node/node0/cpulist", "0-23,48-71");
  root.Write("sys/devices/system/node/node1/cpulist", "24-47,72-95");
  for (int number = 0; number < 96; ++number) {
    const std::string folder = absl::StrCat("sys/devices/system/cpu/cpu", number, "/topology/");
    root.Write(folder + "core_id", absl::StrCat(number % 24));
    root.Write(folder + "physical_package_id", absl::StrCat(number % 48 / 24));
  }
  std::vector<RankCores> ranks = Alike(8, "0-95");
  for (size_t rank = 0; rank < 8; ++rank) ranks[rank].near = ParseCores(rank < 4 ? "0-23,48-71" : "24-47,72-95");
  CHECK(Of(ranks, 0, root.path()) == "0-5,48-53 with 12");
  CHECK(Of(ranks, 3, root.path()) == "18-23,66-71 with 12");
  CHECK(Of(ranks, 7, root.path()) == "42-47,90-95 with 12");
}

TEST_CASE("a bound thread, and those that it starts, run there alone") {
  const std::vector<int> before = AllowedCores();
  REQUIRE_FALSE(before.empty());
  std::vector<int> of_thread, of_its_thread;
  absl::Status bound;
  std::thread([&] {
    bound = BindThread({before.back()});
    of_thread = AllowedCores();
    std::thread([&] { of_its_thread = AllowedCores(); }).join();
  }).join();
  REQUIRE(bound == absl::OkStatus());
  CHECK(of_thread == std::vector<int>{before.back()});
  CHECK(of_its_thread == of_thread);
  CHECK(AllowedCores() == before);
  CHECK(BindThread({}).code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace distill
