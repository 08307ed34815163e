// Reduce-scatter and all-gather in two levels: how many calls a segment takes inside a host, how blocks lie in a call's
// tiles, and how long segments are on many hosts.
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/lane_blocks.h"
#include "libdistill/comm/lane_cut.h"
#include "libdistill/comm/setup.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/load_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;

HostLayout Layout(const std::string& places) {
  std::vector<std::string> ids;
  for (const char place : places) ids.emplace_back(1, place);
  return HostLayout(ids);
}

// `hosts` hosts of `ranks` ranks, numbered host by host, or in rounds over the hosts.
HostLayout Even(int hosts, int ranks, bool in_rounds) {
  std::vector<std::string> ids;
  for (int r = 0; r < hosts * ranks; ++r) ids.push_back(absl::StrCat(in_rounds ? r % hosts : r / ranks));
  return HostLayout(ids);
}

// Each block of the tile is in the runs once, at the place that its lane, host and seat give it. How many runs.
size_t CheckRuns(const HostLayout& layout, const LaneBlocks& blocks, const BlockTile& tile) {
  std::map<int64_t, int64_t> rank_at;
  const std::vector<BlockRun> runs = blocks.Runs(tile);
  for (const BlockRun& run : runs) {
    for (int64_t i = 0; i < run.blocks; ++i) {
      CHECK(rank_at.emplace(run.place + i * run.place_step, run.rank + i * run.rank_step).second);
    }
  }
  for (int r = 0; r < layout.ranks(); ++r) {
    const int lane = blocks.LaneOf(r) - tile.first_lane;
    const int host = layout.HostOf(r) - tile.first_host;
    if (lane < 0 || lane >= tile.lanes || host < 0 || host >= tile.hosts) continue;
    const auto found = rank_at.find((lane * tile.hosts + host) * blocks.seats() + blocks.SeatOf(r));
    REQUIRE(found != rank_at.end());
    CHECK(found->second == r);
    rank_at.erase(found);
  }
  CHECK(rank_at.empty());
  return runs.size();
}

// Counts what a host's communicator is asked for.
class Counting : public CommBackend {
 public:
  Counting(std::unique_ptr<CommBackend> to, bool strides, std::map<CommOperation, int>* calls)
      : CommBackend(to->rank(), to->world_size()), to_(std::move(to)), strides_(strides), calls_(*calls) {}
  absl::string_view backend() const override { return to_->backend(); }
  bool takes_strides(Placement placement) const override { return strides_ && to_->takes_strides(placement); }
  absl::Status CheckPeers() override { return to_->CheckPeers(); }

 protected:
  absl::Status Execute(const CommCall& call) override {
    ++calls_[call.operation];
    return to_->Run(call);
  }
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement placement) override {
    return to_->Allocate(bytes, placement);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override {
    return to_->Split(part.color, part.key);
  }

 private:
  const std::unique_ptr<CommBackend> to_;
  const bool strides_;
  std::map<CommOperation, int>& calls_;
};

// Two levels between the hosts that the letters name, over a counting communicator inside each.
MadeCommunicator Join(World world, const std::string& places, bool strides, std::map<CommOperation, int>* calls) {
  const auto host_of = [&](size_t rank) { return absl::StrCat("host-", places.substr(rank, 1)); };
  world.host = world.host_id = host_of(static_cast<size_t>(world.rank));
  CommunicatorOptions options;
  options.timeout = absl::Seconds(60);
  const Deadline deadline = Deadline::After(options.timeout);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Rendezvous> rendezvous, CreateRendezvous(world, deadline));
  rendezvous->StartHeartbeat(options.heartbeat_timeout);
  Setup setup = {.world = world, .options = options, .deadline = deadline, .rendezvous = rendezvous, .hosts = {}};
  for (size_t rank = 0; rank < places.size(); ++rank) setup.hosts.push_back(host_of(rank));
  setup.host_ids = setup.hosts;
  const auto inside = [&](Setup part) -> MadeCommunicator {
    const bool alone = part.world.world_size == 1;
    DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommBackend> shm, CreateShmCommunicator(std::move(part)));
    return std::make_unique<Counting>(alone ? CreateAloneBackend() : std::move(shm), strides, calls);
  };
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommBackend> made,
                           CreateHierarchicalCommunicatorOf(std::move(setup), nullptr, inside));
  DISTILL_RETURN_IF_ERROR(made->Attach(rendezvous, options.timeout, options.abort_grace));
  return made;
}

// What a rank's calls inside its host are at most, of a collective whose blocks have `count` floats.
absl::Status ExpectFewCalls(const std::map<CommOperation, int>& calls, const HostLayout& layout, int64_t count,
                            const std::string& what) {
  int64_t collectives = 0, messages = 0;
  for (const auto& [operation, times] : calls) (IsPair(operation) ? messages : collectives) += times;
  const LaneBlocks blocks(&layout);
  const int64_t segments = BlockCut(count, layout.hosts(), blocks.seats(), 4).segments;
  const std::string found = absl::StrCat(what, " of ", count, ": ", collectives, " calls inside the host and ",
                                         messages, " messages in ", segments, " segments");
  DISTILL_RETURN_IF_ERROR(Expect(collectives <= segments * std::max(layout.hosts(), layout.fewest()), found));
  return Expect(messages <= segments * (layout.most() - 1), found);
}

TEST_CASE("a segment of blocks takes as many calls inside a host as there are hosts or lanes, whatever the world") {
  const std::string places = GENERATE(as<std::string>(), "AABB", "AAAABBBBCCCCDDDD", "AAAAAAAABBBBBBBB", "ABBB",
                                      "ABABABAB", "AABBBBB", "ABCCC");
  const bool strides = GENERATE(true, false);
  CAPTURE(places, strides);
  const HostLayout layout = Layout(places);
  const int world = static_cast<int>(places.size());
  testing::LoadFabric();
  CHECK(Failures(RunRanks(world, absl::Seconds(200), [&](const World& of) -> absl::Status {
          setenv("FI_TCP_IFACE", "lo", 1);
          std::map<CommOperation, int> calls;
          DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(of, places, strides, &calls));
          for (const int64_t count : {int64_t{1}, int64_t{1009}, int64_t{40'009}, int64_t{700'001}}) {
            if (count > 100'000 && world > 8) continue;
            const auto n = static_cast<size_t>(count * world);
            std::vector<int32_t> all(n), mine(static_cast<size_t>(count)), got(n);
            for (size_t i = 0; i < n; ++i) all[i] = static_cast<int32_t>(i % 1000) * (of.rank + 1);
            calls.clear();
            DISTILL_RETURN_IF_ERROR(comm->ReduceScatter(all.data(), mine.data(), count, DType::kInt32, ReduceOp::kSum));
            DISTILL_RETURN_IF_ERROR(ExpectFewCalls(calls, layout, count, "reduce-scatter"));
            calls.clear();
            DISTILL_RETURN_IF_ERROR(comm->AllGather(mine.data(), got.data(), count, DType::kInt32));
            DISTILL_RETURN_IF_ERROR(ExpectFewCalls(calls, layout, count, "all-gather"));
            for (size_t i = 0; i < n; ++i) {
              const int32_t sum = static_cast<int32_t>(i % 1000) * (world * (world + 1) / 2);
              if (got[i] != sum) return absl::InternalError(absl::StrCat("element ", i, " is ", got[i], ", not ", sum));
            }
          }
          return absl::OkStatus();
        })) == "");
}

TEST_CASE("the runs of every tile are its blocks, whatever the layout") {
  for (const std::string places : {"AB", "AABB", "ABAB", "ABBA", "ABBB", "AABBBBB", "ABCCC", "AABBCABCCCAB"}) {
    CAPTURE(places);
    const HostLayout layout = Layout(places);
    const LaneBlocks blocks(&layout);
    for (int host = 0; host < layout.hosts(); ++host) {
      for (const int64_t tile_bytes : {1, 1000, 1 << 20}) {
        std::set<std::pair<int, int>> covered;
        for (const BlockTile& tile : blocks.Tiles(layout.Count(host), 400, tile_bytes)) {
          CheckRuns(layout, blocks, tile);
          for (int lane = 0; lane < tile.lanes; ++lane) {
            for (int h = 0; h < tile.hosts; ++h) {
              CHECK(covered.emplace(tile.first_lane + lane, tile.first_host + h).second);
            }
          }
        }
        CHECK(static_cast<int>(covered.size()) == layout.hosts() * layout.fewest());
      }
    }
  }
}

TEST_CASE("on 64 hosts of 8 ranks a bucket takes few calls and few strided copies") {
  constexpr int64_t kBlock = (25 << 20) / 512;
  for (const bool in_rounds : {false, true}) {
    const HostLayout layout = Even(64, 8, in_rounds);
    const LaneBlocks blocks(&layout);
    const auto on_gpus = blocks.Tiles(8, kBlock, 32 << 20);
    CHECK(on_gpus.size() == 1);
    CHECK(CheckRuns(layout, blocks, on_gpus[0]) <= 64);
    const auto on_cpus = blocks.Tiles(8, kBlock, 256 << 10);
    CHECK(on_cpus.size() == 64);
    for (const BlockTile& tile : on_cpus) CHECK(CheckRuns(layout, blocks, tile) == 1);
  }
  // Used where they lie: a host's blocks where ranks are numbered host by host, all of them in rounds.
  const HostLayout by_hosts = Even(64, 8, false);
  const LaneBlocks blocks(&by_hosts);
  const BlockTile host = {.lanes = 8, .first_host = 5, .hosts = 1};
  CHECK(blocks.InOrder(host, blocks.Runs(host)));
  const HostLayout rounds = Even(64, 8, true);
  const LaneBlocks in_rounds(&rounds);
  const BlockTile all = {.lanes = 8, .hosts = 64};
  CHECK(in_rounds.InOrder(all, in_rounds.Runs(all)));
  CHECK(in_rounds.InOrder(host, in_rounds.Runs(host)));
  CHECK(in_rounds.Runs(host)[0].rank_step == 64);
  CHECK_FALSE(blocks.InOrder(all, blocks.Runs(all)));
}

TEST_CASE("a lane's messages of long blocks are a mebibyte up to 64 hosts, and its segments 64 at most") {
  constexpr int64_t kLong = 1 << 30;
  for (const int64_t hosts : {2, 4, 8, 64, 512}) {
    CAPTURE(hosts);
    for (const int64_t seats : {1, 3}) {
      const BlockCut cut(kLong, hosts, seats, 4);
      const int64_t message = cut.per_segment * seats * 4;
      CHECK(message <= std::max<int64_t>(1 << 20, (4 << 20) / hosts));
      if (hosts <= 64) CHECK(message > (1 << 20) - 4 * seats);
      CHECK(message * hosts <= 64 << 20);
      CHECK(message >= 127 << 10);
    }
  }
  CHECK(BlockCut(1000, 512, 1, 4).segments == 1);
  CHECK(BlockCut(7, 512, 40'000'000, 4).per_segment == 1);  // never none
}

}  // namespace
}  // namespace distill
