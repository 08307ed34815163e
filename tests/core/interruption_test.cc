#include "libdistill/core/interruption.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/out_of_memory.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

struct Ending {
  int wait_status = 0;
  std::string said;  // on stderr
};

// Of a process that does `body`.
template <typename Body>
Ending EndOf(const Body& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    for (const int number : {SIGINT, SIGTERM, SIGABRT}) signal(number, SIG_DFL);  // Catch has handlers of its own
    dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  Ending ending;
  char bytes[512];
  for (ssize_t size; (size = read(ends[0], bytes, sizeof(bytes))) > 0;) ending.said.append(bytes, size);
  close(ends[0]);
  waitpid(pid, &ending.wait_status, 0);
  return ending;
}

}  // namespace

TEST_CASE("SIGINT, or a second notice, ends the run as it does without, after what the run was to say last") {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
    const Ending ending = EndOf([&] {
      Interruption interruption;
      interruption.WillSay("after step 1");
      interruption.WillSay("after step 2");
      raise(number);
      raise(number);  // the same notice, from a launcher that passes it on
      absl::SleepFor(absl::Milliseconds(1100));
      raise(number);
    });
    CHECK(WIFSIGNALED(ending.wait_status));
    CHECK(WTERMSIG(ending.wait_status) == number);
    CHECK(ending.said == "after step 2\n");
  }
}

TEST_CASE("a first notice ends nothing, and the run can ask which it was") {
  const Ending ending = EndOf([] {
    {
      Interruption interruption;
      interruption.WillSay("after step 1");
      if (interruption.notice() != nullptr) _exit(1);
      raise(SIGUSR1);
      if (interruption.notice() != std::string("SIGUSR1")) _exit(2);
    }
    const Interruption another;  // of a run after it, in the same process
    _exit(another.notice() == nullptr ? 0 : 3);
  });
  REQUIRE(WIFEXITED(ending.wait_status));
  CHECK(WEXITSTATUS(ending.wait_status) == 0);
  CHECK(ending.said.empty());
}

TEST_CASE("SIGUSR1 that comes while a run is being made ready is found by it") {
  const Ending ending = EndOf([] {
    signal(SIGUSR1, SIG_DFL);
    Interruption::NoteEarly();
    raise(SIGUSR1);
    const Interruption interruption;
    _exit(interruption.notice() == std::string("SIGUSR1") ? 0 : 1);
  });
  REQUIRE(WIFEXITED(ending.wait_status));
  CHECK(WEXITSTATUS(ending.wait_status) == 0);
}

TEST_CASE("memory that runs out where nobody catches it ends the process with the same words as elsewhere") {
  const Ending ending = EndOf([] {
    HandleUncaughtOutOfMemory();
    HandleUncaughtOutOfMemory();
    SetIdentity({.rank = 3, .world_size = 4, .host = "far"});
    std::thread([] { throw std::bad_alloc(); }).join();
  });
  REQUIRE(WIFEXITED(ending.wait_status));
  CHECK(WEXITSTATUS(ending.wait_status) == 1);
  CHECK(ending.said == std::string("error: rank 3 on far: ") + kOutOfHostMemory + "\n");
}

TEST_CASE("another exception that nobody catches says what it is") {
  const Ending ending = EndOf([] {
    HandleUncaughtOutOfMemory();
    std::thread([] { throw std::runtime_error("what it is"); }).join();
  });
  CHECK(WIFSIGNALED(ending.wait_status));
  CHECK(WTERMSIG(ending.wait_status) == SIGABRT);
  CHECK(ending.said.find("what it is") != std::string::npos);
}

TEST_CASE("a signal ends the first process of a container, too", "[namespace]") {
  constexpr int kNoNamespace = 77;
  const Ending ending = EndOf([] {
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(kNoNamespace);
    const pid_t first = fork();
    if (first < 0) _exit(kNoNamespace);
    if (first == 0) {
      Interruption interruption;
      interruption.WillSay("after step 1");
      raise(SIGTERM);
      absl::SleepFor(absl::Milliseconds(1100));
      raise(SIGTERM);
      _exit(0);  // as a run that continues would end
    }
    int status = 0;
    waitpid(first, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  });
  REQUIRE(WIFEXITED(ending.wait_status));
  if (WEXITSTATUS(ending.wait_status) == kNoNamespace) {
    WARN("skipped: this system lets no process make a process namespace");
    return;
  }
  CHECK(WEXITSTATUS(ending.wait_status) == 128 + SIGTERM);
  CHECK(ending.said == "after step 1\n");
}

TEST_CASE("what a run will say is cut where it would not fit") {
  const Ending ending = EndOf([] {
    Interruption interruption;
    interruption.WillSay(std::string(100000, 'x'));
    raise(SIGINT);
  });
  CHECK(ending.said == std::string(4000, 'x') + "\n");
}

TEST_CASE("signals that somebody else handles or ignores stay his, and all are as before when the run is over") {
  const Ending ending = EndOf([] {
    signal(SIGTERM, SIG_IGN);
    {
      Interruption interruption, second;
      second.WillSay("the second");
      interruption.WillSay("the first");
      raise(SIGTERM);
    }
    raise(SIGINT);
  });
  CHECK(WIFSIGNALED(ending.wait_status));
  CHECK(WTERMSIG(ending.wait_status) == SIGINT);
  CHECK(ending.said.empty());
}

}  // namespace distill
