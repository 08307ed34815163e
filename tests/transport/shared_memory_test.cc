#include "libdistill/transport/shared_memory.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/process_watch.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

TEST_CASE("two processes see each other's writes through a ticket") {
  absl::StatusOr<SharedMemory> mine = SharedMemory::Create(100'000);
  REQUIRE(mine.ok());
  CHECK(mine->data()[99'999] == 0);
  std::strcpy(mine->data(), "from the parent");
  const std::string ticket = mine->ticket();
  const auto outcomes = testing::RunRanks(1, absl::Seconds(10), [&ticket](const World&) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const SharedMemory theirs, SharedMemory::Map(ticket));
    DISTILL_RETURN_IF_ERROR(testing::Expect(theirs.bytes() == 100'000, "another size"));
    DISTILL_RETURN_IF_ERROR(testing::Expect(std::strcmp(theirs.data(), "from the parent") == 0, "other bytes"));
    std::strcpy(theirs.data() + 50'000, "from the child");
    return absl::OkStatus();
  });
  CHECK(testing::Failures(outcomes) == "");
  CHECK(std::strcmp(mine->data() + 50'000, "from the child") == 0);
}

TEST_CASE("memory above a huge page begins at one, with a tail that is as good, in the owner and in who maps it") {
  constexpr size_t kHuge = size_t{2} << 20;
  constexpr size_t kBytes = 2 * kHuge + 12'345;
  absl::StatusOr<SharedMemory> mine = SharedMemory::Create(kBytes);
  REQUIRE(mine.ok());
  const absl::StatusOr<SharedMemory> again = SharedMemory::Map(mine->ticket());
  REQUIRE(again.ok());
  CHECK(again->data() != mine->data());
  for (const char* data : {mine->data(), again->data()}) CHECK(reinterpret_cast<uintptr_t>(data) % kHuge == 0);
  for (const size_t at : {size_t{0}, kHuge - 1, kHuge, 2 * kHuge, kBytes - 1}) {
    CHECK(mine->data()[at] == 0);
    mine->data()[at] = 'x';
    CHECK(again->data()[at] == 'x');
  }
}

TEST_CASE("a ticket of memory that is gone, or of something else, is an error") {
  std::string ticket;
  {
    absl::StatusOr<SharedMemory> mine = SharedMemory::Create(4096);
    REQUIRE(mine.ok());
    ticket = mine->ticket();
    CHECK(SharedMemory::Map(ticket).ok());
  }
  CHECK(absl::IsFailedPrecondition(SharedMemory::Map(ticket).status()));
  absl::StatusOr<SharedMemory> other = SharedMemory::Create(8192);  // takes the same descriptor
  CHECK(absl::IsFailedPrecondition(SharedMemory::Map(ticket).status()));
  CHECK(absl::IsInvalidArgument(SharedMemory::Map("1 2").status()));
}

TEST_CASE("memory that the machine does not have is refused, not promised") {
  // So much that the kernel would refuse it as well: a smaller number could fill the machine if the check were gone.
  const absl::Status status = SharedMemory::Create(~size_t{0}).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("are available"));
}

TEST_CASE("memory that the container's limit leaves no room for is refused, with the limit's place") {
  const testing::TempFolder root;
  root.Write("proc/self/cgroup", "0::/job");
  root.Write("sys/fs/cgroup/job/memory.max", "1000000");
  root.Write("sys/fs/cgroup/job/memory.current", "600000");
  CHECK(SharedMemory::Create(400000, root.path()).ok());
  const absl::Status status = SharedMemory::Create(400001, root.path()).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("400000 are available") && Catch::Contains("cgroup/job"));
}

TEST_CASE("a watch sees a killed process before anybody has waited for it") {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const absl::StatusOr<ProcessWatch> watch = ProcessWatch::Open(child);
  REQUIRE(watch.ok());
  CHECK(watch->Alive());
  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // it stays a zombie
  CHECK(!watch->Alive());
  waitpid(child, nullptr, 0);
  CHECK(!watch->Alive());
  CHECK(ProcessWatch().Alive());
}

}  // namespace
}  // namespace distill
