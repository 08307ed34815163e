// Ranks that share a host, or a control group, ask for memory together: what each could have alone is refused where all
// cannot have it.
#include "libdistill/comm/host_memory.h"

#include <sys/mman.h>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/comm/load_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;
using testing::TempFolder;

MemoryRequest Request(const std::string& host, int64_t bytes, std::vector<MemoryLimit> limits) {
  return {host, host + "-id", bytes, std::move(limits)};
}

MemoryLimit OfHost(uint64_t left) { return {"this host", "host", left}; }
MemoryLimit OfGroup(const std::string& name, uint64_t left) { return {"the memory limit of /" + name, name, left}; }

std::string ErrorOf(const std::vector<MemoryRequest>& requests) {
  const absl::Status status = CheckHostMemory(requests);
  CHECK((status.ok() || absl::IsResourceExhausted(status)));
  return std::string(status.message());
}

}  // namespace

TEST_CASE("what the ranks of a host ask for adds up, and is compared with what that host has") {
  const std::vector<MemoryRequest> fits = {Request("a", 400, {OfHost(800)}), Request("b", 400, {OfHost(400)}),
                                           Request("a", 400, {OfHost(900)})};
  CHECK(ErrorOf(fits) == "");
  std::vector<MemoryRequest> more = fits;
  more.push_back(Request("b", 1, {OfHost(400)}));
  CHECK(
      absl::StartsWith(ErrorOf(more),
                       "host b has not that much memory: 2 ranks ask for 401 bytes in all, 400 are available (limited "
                       "by this host); "));
  more[3] = Request("b", int64_t{1} << 62, {OfHost(400)});
  for (int i = 0; i < 3; ++i) more.push_back(more[3]);
  CHECK(absl::StrContains(ErrorOf(more), "5 ranks ask for 18446744073709551615 bytes in all"));
  CHECK(ErrorOf({Request("a", 400, {}), Request("a", 400, {})}) == "");  // what is not known limits nobody
  CHECK(absl::StrContains(ErrorOf({Request("a", 400, {OfHost(399)})}), "1 rank asks for 400 bytes in all"));
}

TEST_CASE("ranks share the limits of the control groups that they are in together, and no others") {
  const auto rank = [](const std::string& step, uint64_t left) {
    return Request("a", 400, {OfHost(10'000), OfGroup(step, left), OfGroup("job", 1600)});
  };
  CHECK(ErrorOf({rank("one", 400), rank("two", 500), rank("three", 400), rank("four", 400)}) == "");
  const std::string step = ErrorOf({rank("one", 400), rank("two", 700), rank("two", 800), rank("one", 400)});
  CHECK(absl::StrContains(step,
                          "2 ranks ask for 800 bytes in all, 400 are available (limited by the memory limit of /one)"));
  const std::vector<MemoryRequest> five(5, rank("one", 5000));
  CHECK(absl::StrContains(ErrorOf(five),
                          "5 ranks ask for 2000 bytes in all, 1600 are available (limited by the memory "
                          "limit of /job)"));
  // Groups of two hosts may have one number.
  CHECK(ErrorOf({Request("a", 400, {OfGroup("job", 400)}), Request("b", 400, {OfGroup("job", 400)})}) == "");
}

TEST_CASE("a request for memory comes over as it was sent") {
  const MemoryRequest sent = Request("a", 123, {OfHost(5), OfGroup("job", ~uint64_t{0})});
  const auto got = MemoryRequest::Decode(sent.Encode());
  REQUIRE(got.ok());
  CHECK(got->host == "a");
  CHECK(got->host_id == "a-id");
  CHECK(got->bytes == 123);
  REQUIRE(got->limits.size() == 2);
  CHECK(got->limits[1].name == "the memory limit of /job");
  CHECK(got->limits[1].id == "job");
  CHECK(got->limits[1].left_bytes == ~uint64_t{0});
  CHECK_FALSE(MemoryRequest::Decode("no request").ok());
}

namespace {

constexpr int64_t kBytes = 1 << 20;

void PutAvailable(const TempFolder& root, int64_t bytes) {
  root.Write("proc/meminfo", absl::StrCat("MemAvailable: ", bytes >> 10, " kB\n"));
}

// Of three ranks on `hosts` the `sharers` that share rank 0's ask for more than it has left; one less has enough.
std::string AllocateTogether(BackendPreference backend, const std::vector<std::string>& hosts, int sharers) {
  const TempFolder scarce;
  const TempFolder ample;
  PutAvailable(scarce, sharers * kBytes - 4096);
  PutAvailable(ample, 100 * kBytes);
  return Failures(RunRanks(3, absl::Seconds(100), [&](const World& world) -> absl::Status {
    const bool shares = hosts[static_cast<size_t>(world.rank)] == hosts[0];
    DISTILL_ASSIGN_OR_RETURN(const auto comm, testing::JoinForCallsOf(absl::Seconds(60), world, backend, hosts,
                                                                      shares ? scarce.path() : ample.path()));
    const std::string asked =
        absl::StrCat("host ", hosts[0], " has not that much memory: ", sharers, " ranks ask for ", sharers * kBytes,
                     " bytes in all, ", sharers * kBytes - 4096, " are available");
    DISTILL_RETURN_IF_ERROR(
        ExpectError(comm->Allocate(kBytes).status(), absl::StatusCode::kResourceExhausted, {asked}));
    // A part with one of them less has enough.
    DISTILL_ASSIGN_OR_RETURN(const auto part, comm->Split(comm->rank() / 2, 0));
    DISTILL_RETURN_IF_ERROR(part->Allocate(kBytes).status());
    if (comm->rank() == 0) PutAvailable(scarce, sharers * kBytes);
    DISTILL_RETURN_IF_ERROR(comm->Barrier());
    DISTILL_ASSIGN_OR_RETURN(const auto memory, comm->Allocate(kBytes));
    int64_t& sum = *reinterpret_cast<int64_t*>(memory->data());
    sum = 1;
    DISTILL_RETURN_IF_ERROR(comm->AllReduce(&sum, &sum, 1, DType::kInt64, ReduceOp::kSum));
    DISTILL_RETURN_IF_ERROR(Expect(sum == 3, "a wrong sum"));
    std::vector<unsigned char> there(kBytes / 4096);
    if (mincore(memory->data(), kBytes, there.data()) != 0) return absl::InternalError("mincore");
    for (const unsigned char page : there) DISTILL_RETURN_IF_ERROR(Expect((page & 1) != 0, "a page is not taken yet"));
    return absl::OkStatus();
  }));
}

}  // namespace

TEST_CASE("ranks that each could have the memory, and together cannot, all get an error, and can try again") {
  testing::LoadFabric();
  CHECK(AllocateTogether(BackendPreference::kShm, {"a", "a", "a"}, 3) == "");
  CHECK(AllocateTogether(BackendPreference::kFabric, {"a", "a", "a"}, 3) == "");
  CHECK(AllocateTogether(BackendPreference::kFabric, {"a", "b", "a"}, 2) == "");
  CHECK(AllocateTogether(BackendPreference::kHierarchical, {"a", "b", "a"}, 2) == "");
}

}  // namespace distill
