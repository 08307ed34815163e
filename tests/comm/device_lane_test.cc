// Two levels on device memory, with host memory in the place of a GPU's: how a segment comes to its lane and back, over
// pinned memory and over libfabric's FI_HMEM (whose shm provider takes host memory as a device's too), gives what the
// calls on host memory give. And the choice between the two.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/device_path.h"
#include "libdistill/comm/lane_blocks.h"
#include "libdistill/comm/lane_pipeline.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/comm/setup.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/collectives_grid.h"
#include "tests/comm/load_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/stale_memory.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;

constexpr Placement kOnDevice = {.on_device = true};

// Passes every call on with the same placement, and takes device memory itself.
class Forward : public CommBackend {
 public:
  Forward(std::unique_ptr<CommBackend> to, Placement placement)
      : CommBackend(to->rank(), to->world_size()), to_(std::move(to)), placement_(placement) {}
  absl::string_view backend() const override { return to_->backend(); }
  bool takes_device_memory() const override { return true; }
  absl::Status CheckPeers() override { return to_->CheckPeers(); }

 protected:
  absl::Status Execute(const CommCall& call) override {
    CommCall forwarded = call;
    forwarded.placement = placement_;
    return to_->Run(forwarded);
  }
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement) override {
    return to_->Allocate(bytes, placement_);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override {
    return to_->Split(part.color, part.key);
  }

 private:
  const std::unique_ptr<CommBackend> to_;
  const Placement placement_;
};

// Copies when it is waited for, so that nobody can do without waiting, and fills new memory with what no test expects.
class HostAsDevice : public DeviceMemory {
 public:
  int device_index() const override { return -1; }
  std::string pci_address() const override { return ""; }
  absl::Status CheckNetworkAccess() const override { return absl::OkStatus(); }
  // By all of this process.
  static int64_t& allocated_bytes() {
    static int64_t bytes = 0;
    return bytes;
  }
  absl::StatusOr<std::unique_ptr<CommMemory>> Allocate(int64_t bytes) override {
    allocated_bytes() += bytes;
    return std::unique_ptr<CommMemory>(new Bytes(static_cast<size_t>(bytes)));
  }
  absl::StatusOr<std::unique_ptr<CommMemory>> AllocatePinned(int64_t bytes) override { return Allocate(bytes); }
  absl::Status BeginCopy(int64_t segment, void* to, const void* from, int64_t bytes) override {
    Pending& pending = pending_[segment % 2];
    if (pending.to != nullptr) return absl::InternalError("two copies of a segment at one time");
    pending = {to, from, bytes};
    return absl::OkStatus();
  }
  absl::Status AwaitCopy(int64_t segment) override {
    Pending& pending = pending_[segment % 2];
    if (pending.to == nullptr) return absl::InternalError("a wait for a copy that nobody has begun");
    std::memcpy(pending.to, pending.from, static_cast<size_t>(pending.bytes));
    pending = {};
    return absl::OkStatus();
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes, void*) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status CopyRows(absl::Span<const Rows> copies, void*) override {
    distill::CopyRows(copies);
    return absl::OkStatus();
  }
  absl::Status Reduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
                      int divisor) override {
    if (!network_awaited_ && source_count > 1) return absl::InternalError("a sum of what may still be on its way");
    network_awaited_ = false;
    distill::Reduce(out, sources, source_count, count, dtype, op, divisor);
    return absl::OkStatus();
  }
  absl::Status AwaitNetwork() override {
    network_awaited_ = true;
    return absl::OkStatus();
  }

 private:
  struct Pending {
    void* to = nullptr;
    const void* from = nullptr;
    int64_t bytes = 0;
  };
  class Bytes : public CommMemory {
   public:
    explicit Bytes(size_t bytes) : Bytes(new char[bytes], bytes) {}
    ~Bytes() override { delete[] data(); }

   private:
    Bytes(char* data, size_t bytes) : CommMemory(data, static_cast<int64_t>(bytes)) { std::memset(data, 0xa5, bytes); }
  };
  Pending pending_[2];
  bool network_awaited_ = false;
};

// The ranks of hosts by their letters, which share memory in truth.
MadeCommunicator Join(World world, const std::string& places) {
  const auto host_of = [&](size_t rank) { return absl::StrCat("host-", places.substr(rank, 1)); };
  world.host = host_of(static_cast<size_t>(world.rank));
  CommunicatorOptions options;
  options.timeout = absl::Seconds(60);
  const Deadline deadline = Deadline::After(options.timeout);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Rendezvous> rendezvous, CreateRendezvous(world, deadline));
  rendezvous->StartHeartbeat(options.heartbeat_timeout);
  Setup setup = {.world = world, .options = options, .deadline = deadline, .rendezvous = rendezvous, .hosts = {}};
  for (size_t rank = 0; rank < places.size(); ++rank) setup.hosts.push_back(host_of(rank));
  setup.host_ids = setup.hosts;
  const auto inside = [](Setup part) -> MadeCommunicator {
    DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommBackend> shm, CreateShmCommunicator(std::move(part)));
    return std::make_unique<Forward>(std::move(shm), Placement{});
  };
  DISTILL_ASSIGN_OR_RETURN(
      std::unique_ptr<CommBackend> made,
      CreateHierarchicalCommunicatorOf(std::move(setup), std::make_shared<HostAsDevice>(), inside));
  DISTILL_RETURN_IF_ERROR(made->Attach(rendezvous, options.timeout, options.abort_grace));
  DISTILL_RETURN_IF_ERROR(Expect(made->backend() == "nccl+fabric", "over another backend"));
  return std::make_unique<Forward>(std::move(made), kOnDevice);
}

enum class Path { kPinned, kFabric, kFabricWrites };

void Choose(Path path) {
  const bool over_fabric = path != Path::kPinned;
  testing::RemoveWhatItsNumberLeft();
  setenv("FI_TCP_IFACE", "lo", 1);
  setenv("DISTILL_FABRIC_HMEM", over_fabric ? "1" : "0", 1);
  if (over_fabric) setenv("DISTILL_FABRIC_PROVIDER", "shm", 1);
  if (path == Path::kFabricWrites) setenv("DISTILL_FABRIC_WRITES", "1", 1);
}

std::string RunOn(const std::string& places, Path path, const std::function<absl::Status(Communicator&)>& body) {
  return Failures(
      RunRanks(static_cast<int>(places.size()), absl::Seconds(100), [&](const World& world) -> absl::Status {
        Choose(path);
        DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, places));
        return body(*comm);
      }));
}

DeviceAccess Direct(const std::string& preference = "") { return {DeviceAccess::Kind::kDirect, "efa", "", preference}; }

}  // namespace

TEST_CASE("collectives on device memory in two levels are exact, through pinned memory and over the fabric itself") {
  testing::LoadFabric();
  const Path path = GENERATE(Path::kPinned, Path::kFabric, Path::kFabricWrites);
  CAPTURE(static_cast<int>(path));
  for (const std::string places : {"ABAA", "AABB", "AB", "ABCDE"}) {  // between five hosts along trees, too
    CAPTURE(places);
    CHECK(RunOn(places, path, [](Communicator& comm) {
            return testing::CheckCollectives(
                comm, {.counts = {1, 1009}, .dtypes = {DType::kBFloat16}, .ops = {ReduceOp::kAverage, ReduceOp::kMax}});
          }) == "");
  }
  // Several segments of every call.
  const auto large = [](Communicator& comm) { return testing::CheckLargeCollectives(comm, 5 << 20); };
  for (const std::string places : {"ABB", "AABB"}) CHECK(RunOn(places, path, large) == "");
}

TEST_CASE("what a rank keeps for blocks on their way between hosts is what plans count") {
  testing::LoadFabric();
  for (const int64_t count : {int64_t{1009}, int64_t{1'300'001}}) {
    CAPTURE(count);
    CHECK(RunOn("AABB", Path::kPinned, [count](Communicator& comm) -> absl::Status {
            std::vector<float> whole(static_cast<size_t>(4 * count)), own(static_cast<size_t>(count));
            const int64_t before = HostAsDevice::allocated_bytes();
            for (int round = 0; round < 2; ++round) {
              DISTILL_RETURN_IF_ERROR(
                  comm.ReduceScatter(whole.data(), own.data(), count, DType::kFloat32, ReduceOp::kSum));
              DISTILL_RETURN_IF_ERROR(comm.AllGather(own.data(), whole.data(), count, DType::kFloat32));
            }
            const int64_t taken = HostAsDevice::allocated_bytes() - before;
            const int64_t planned = BlockScratchBytes(2, 2, count, SizeOf(DType::kFloat32), /*on_device=*/true);
            return Expect(taken == planned, absl::StrCat(taken, " bytes, and ", planned, " are planned"));
          }) == "");
  }
}

TEST_CASE("a rank keeps no more for all-reduces and blocks between hosts than plans count, also in its lane") {
  testing::LoadFabric();
  constexpr int64_t kCount = 1'300'001;
  const bool reduces = GENERATE(true, false);
  for (const std::string places : {"AABB", "ABC"}) {
    CAPTURE(reduces, places);
    const int ranks = places == "ABC" ? 1 : 2, hosts = static_cast<int>(places.size()) / ranks;
    const int64_t planned = reduces ? LaneScratchBytes(hosts, ranks, kCount, 0, SizeOf(DType::kFloat32))
                                    : LaneScratchBytes(hosts, ranks, 0, kCount, SizeOf(DType::kFloat32));
    CHECK(RunOn(places, Path::kFabric, [&](Communicator& comm) -> absl::Status {
            std::vector<float> whole(places.size() * kCount);
            for (int round = 0; round < 2; ++round) {
              DISTILL_RETURN_IF_ERROR(
                  reduces ? comm.AllReduce(whole.data(), whole.data(), kCount, DType::kFloat32, ReduceOp::kSum)
                          : comm.ReduceScatter(whole.data(), whole.data() + comm.rank() * kCount, kCount,
                                               DType::kFloat32, ReduceOp::kSum));
            }
            const int64_t taken = HostAsDevice::allocated_bytes();  // since the ranks met
            return Expect(taken <= planned && taken > StageBytes(0),
                          absl::StrCat(taken, " bytes, and ", planned, " are planned"));
          }) == "");
  }
}

TEST_CASE("a rank that is killed ends the others' calls on device memory in two levels, by name") {
  const Path path = GENERATE(Path::kPinned, Path::kFabric);
  const auto outcomes = RunRanks(4, absl::Seconds(60), [&](const World& world) -> absl::Status {
    Choose(path);
    DISTILL_ASSIGN_OR_RETURN(const auto comm, Join(world, "AABB"));
    std::vector<float> data(1 << 20);
    const auto sum = [&] {
      return comm->AllReduce(data.data(), data.data(), 1 << 20, DType::kFloat32, ReduceOp::kSum, kOnDevice);
    };
    DISTILL_RETURN_IF_ERROR(sum());
    if (world.rank == 3) raise(SIGKILL);
    return testing::ExpectError(sum(), absl::StatusCode::kUnavailable, {"all-reduce number 2", "rank 3 on host-B"});
  });
  for (const testing::RankOutcome& outcome : outcomes) {
    CAPTURE(outcome.rank, static_cast<int>(path));
    if (outcome.rank == 3) continue;
    CHECK(outcome.status.ToString() == "OK");
    CHECK(outcome.took < absl::Seconds(30));
  }
}

TEST_CASE("device memory crosses over the fabric where every rank's network card can move it, else through the host") {
  const std::vector<std::string> names = {"rank 0 on a", "rank 1 on b"};
  const auto choose = [&](const DeviceAccess& a, const DeviceAccess& b) { return ChooseDevicePath({a, b}, names); };
  const DeviceAccess none = {DeviceAccess::Kind::kNone, "", "no such device", ""};
  const DeviceAccess copies = {DeviceAccess::Kind::kCopies, "efa", "it would copy", ""};
  CHECK(choose(Direct(), Direct())->over_fabric);
  CHECK(choose(Direct(), Direct())->why == "libfabric's provider efa");
  CHECK_FALSE(choose(Direct(), none)->over_fabric);
  CHECK(choose(Direct(), none)->why == "rank 1 on b: no such device");
  CHECK(choose(copies, Direct())->why == "rank 0 on a: it would copy");
  CHECK(choose(copies, Direct("1"))->over_fabric);
  CHECK(choose(Direct(), Direct("0"))->why == "DISTILL_FABRIC_HMEM=0");
  DeviceAccess other = Direct();
  other.provider = "verbs";
  CHECK_FALSE(choose(Direct(), other)->over_fabric);
  CHECK(choose(Direct("1"), none).status().message() ==
        "DISTILL_FABRIC_HMEM=1, but the fabric cannot carry device memory: rank 1 on b: no such device");
  CHECK(absl::IsFailedPrecondition(choose(Direct("1"), Direct("0")).status()));
  CHECK(absl::IsInvalidArgument(choose(Direct("yes"), Direct()).status()));
  const absl::StatusOr<DeviceAccess> told = DeviceAccess::Decode(copies.Encode());
  REQUIRE(told.ok());
  CHECK(told->kind == copies.kind);
  CHECK(told->why_not == copies.why_not);
  CHECK_FALSE(DeviceAccess::Decode("?").ok());
}

TEST_CASE("a preference for the fabric that no provider can meet is every rank's error") {
  const auto outcomes = RunRanks(2, absl::Seconds(60), [](const World& world) -> absl::Status {
    setenv("FI_TCP_IFACE", "lo", 1);
    setenv("DISTILL_FABRIC_HMEM", "1", 1);
    setenv("DISTILL_FABRIC_PROVIDER", "sockets", 1);
    return testing::ExpectError(Join(world, "AB").status(), absl::StatusCode::kInvalidArgument,
                                {"DISTILL_FABRIC_HMEM=1", "sockets takes no device memory here"});
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace distill
