// Ranks that share a host, or a control group, ask for memory together: what each could have alone is refused where all
// cannot have it.
#include "libdistill/comm/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

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
  for (MemoryLimit& limit : limits) limit.id = absl::StrCat("boot of ", host, " ", limit.id);
  return {host, bytes, std::move(limits)};
}

MemoryLimit OfHost(uint64_t left) { return {"this host", "host", left}; }
MemoryLimit OfGroup(const std::string& name, uint64_t left) { return {"the memory limit of /" + name, name, left}; }

// Memory that somebody else made.
struct MappedMemory : CommMemory {
  MappedMemory(void* data, int64_t bytes) : CommMemory(static_cast<char*>(data), bytes) {}
};

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

TEST_CASE("ranks in containers of their own share their host's memory, and a group that all of them are in") {
  const auto rank = [](const std::string& container, uint64_t left, uint64_t in_group) {
    return MemoryRequest{
        container, 400, {{"this host", "boot host", left}, {"the memory limit of /pod", "boot group 1:2", in_group}}};
  };
  CHECK(ErrorOf({rank("a", 800, 900), rank("b", 800, 900)}) == "");
  CHECK(absl::StrContains(ErrorOf({rank("a", 700, 900), rank("b", 799, 900)}),
                          "2 ranks ask for 800 bytes in all, 700 are available (limited by this host)"));
  CHECK(
      absl::StrContains(ErrorOf({rank("a", 900, 799), rank("b", 900, 799)}), "(limited by the memory limit of /pod)"));
}

TEST_CASE("pages that the kernel cannot give are an error, and not a signal") {
  constexpr int64_t kPages = 4 * 4096;
  const int file = memfd_create("pages", MFD_CLOEXEC);
  REQUIRE(file >= 0);
  REQUIRE(ftruncate(file, 4096) == 0);  // there is nothing behind the first page
  void* const cut = mmap(nullptr, kPages, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  REQUIRE(cut != MAP_FAILED);
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  if (madvise(cut, 4096, kPopulateWrite) != 0 && errno == EINVAL) {
    WARN("skipped: this kernel (before 5.14) gives pages only by a signal");
  } else {
    const absl::Status status = TakePages(MappedMemory(cut, kPages));
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK(absl::StrContains(status.message(), "cannot give the 16384 bytes that a rank has allocated: "));
  }
  munmap(cut, kPages);
}

TEST_CASE("where the kernel knows no call for it, each page is touched") {
  constexpr int64_t kPages = 4 * 4096;
  void* const all = mmap(nullptr, kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(all != MAP_FAILED);
  // An address within a page gives the same error, EINVAL.
  CHECK(TakePages(MappedMemory(static_cast<char*>(all) + 1, kPages - 1)) == absl::OkStatus());
  std::vector<unsigned char> there(4);
  REQUIRE(mincore(all, kPages, there.data()) == 0);
  for (const unsigned char page : there) CHECK((page & 1) != 0);
  munmap(all, kPages);
}

TEST_CASE("a request for memory comes over as it was sent") {
  const MemoryRequest sent = Request("a", 123, {OfHost(5), OfGroup("job", ~uint64_t{0})});
  const auto got = MemoryRequest::Decode(sent.Encode());
  REQUIRE(got.ok());
  CHECK(got->host == "a");
  CHECK(got->bytes == 123);
  REQUIRE(got->limits.size() == 2);
  CHECK(got->limits[1].name == "the memory limit of /job");
  CHECK(got->limits[1].id == "boot of a job");
  CHECK(got->limits[1].left_bytes == ~uint64_t{0});
  CHECK_FALSE(MemoryRequest::Decode("no request").ok());
}

namespace {

constexpr int64_t kBytes = 1 << 20;

// Each root is another host's: containers of one host share its memory.
void PutAvailable(const TempFolder& root, int64_t bytes) {
  root.Write("proc/sys/kernel/random/boot_id", root.path());
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
