#include "libdistill/checkpoint/output_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::CapturedStderr;
using testing::TempFolder;

// Another process that has taken the folder, and keeps it until it is killed.
pid_t StartHolder(const std::string& folder) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const auto lock = OutputLock::Take(folder);
    const char ok = lock.ok() ? 'y' : 'n';
    if (write(ends[1], &ok, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char ok = 0;
  REQUIRE(read(ends[0], &ok, 1) == 1);
  CHECK(ok == 'y');
  close(ends[0]);
  close(ends[1]);
  return pid;
}

std::string ForeignLease(int counter) {
  return absl::StrCat("lease 1\nboot other\nhost far\npid 77\nsince 2030-01-01T00:00:00Z\ncounter ", counter, "\n");
}

const OutputLockTimes kQuick = {.renewal = absl::Milliseconds(50), .patience = absl::Seconds(2)};

}  // namespace

TEST_CASE("a second process is refused with whose the folder is, and SIGKILL frees it at once") {
  const TempFolder folder;
  const pid_t holder = StartHolder(folder.path());
  const absl::Status refused = OutputLock::Take(folder.path()).status();
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(absl::StrContains(refused.message(), "output_dir " + folder.path() + " is in use by another run"));
  CHECK(absl::StrContains(refused.message(), absl::StrCat("process ", holder, " on ")));
  CHECK(absl::StrContains(refused.message(), "give this run another output_dir, or end that one first"));
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  CHECK(absl::StrContains(folder.Read(".lock"), absl::StrCat("pid ", holder, "\n")));  // the lease is still there
  const CapturedStderr said;
  CHECK(OutputLock::Take(folder.path()).ok());
  CHECK(said.Text().empty());  // it did not wait for the lease
}

TEST_CASE("a folder that is given back is free, and only its hidden file stays") {
  const TempFolder folder;
  {
    const auto lock = OutputLock::Take(folder.path());
    REQUIRE(lock.ok());
    CHECK(OutputLock::Take(folder.path()).status().code() == absl::StatusCode::kFailedPrecondition);
  }
  CHECK(folder.Read(".lock").empty());
  CHECK(OutputLock::Take(folder.path()).ok());
}

TEST_CASE("the lease is renewed while the lock is held") {
  const TempFolder folder;
  const auto lock = OutputLock::Take(folder.path(), kQuick);
  REQUIRE(lock.ok());
  const std::string first = folder.Read(".lock");
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  while (folder.Read(".lock") == first && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(10));
  CHECK(folder.Read(".lock") != first);
}

TEST_CASE("another host's run that renews its lease is refused, one that does not is taken over") {
  const TempFolder folder;
  folder.Write(".lock", ForeignLease(0));
  {
    const CapturedStderr said;
    std::atomic<bool> ends = false;
    std::thread renews([&] {
      for (int counter = 1; !ends; ++counter) {
        folder.Write(".lock", ForeignLease(counter));
        absl::SleepFor(absl::Milliseconds(50));
      }
    });
    const absl::Status refused = OutputLock::Take(folder.path(), {.patience = absl::Seconds(30)}).status();
    ends = true;
    renews.join();
    CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(absl::StrContains(refused.message(), "process 77 on far, since 2030-01-01T00:00:00Z"));
    CHECK(absl::StrContains(said.Text(), "to see whether it still runs"));
  }
  folder.Write(".lock", ForeignLease(9));
  const CapturedStderr said;
  CHECK(OutputLock::Take(folder.path(), kQuick).ok());
  CHECK(absl::StrContains(said.Text(), "is taken over: process 77 on far has not renewed its lease for 2s"));
}

TEST_CASE("a lock whose folder was removed and made anew is taken there, too") {
  const TempFolder folder;
  const std::string out = folder / "out";
  const auto lock = OutputLock::Take(out, kQuick);
  REQUIRE(lock.ok());
  std::filesystem::remove_all(out);
  std::filesystem::create_directory(out);
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  while (!absl::StrContains(folder.Read("out/.lock"), "pid ") && absl::Now() < limit) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  CHECK(OutputLock::Take(out).status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a run that another host's has overwritten is told, and leaves its lease alone") {
  const TempFolder folder;
  {
    const auto lock = OutputLock::Take(folder.path(), kQuick);
    REQUIRE(lock.ok());
    CHECK((*lock)->Confirm().ok());
    const CapturedStderr said;
    folder.Write(".lock", ForeignLease(0));
    const absl::Status lost = (*lock)->Confirm();
    CHECK(lost.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(absl::StrContains(lost.message(), "is in use by another run: process 77 on far"));
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    while (said.Text().empty() && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(10));
    CHECK(absl::StrContains(said.Text(), "this run has lost its output_dir, and both write it now: "));
    CHECK(folder.Read(".lock") == ForeignLease(0));
  }
  CHECK(folder.Read(".lock") == ForeignLease(0));
}

}  // namespace distill
