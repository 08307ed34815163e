#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "launcher/guard.h"
#include "launcher/hand_over.h"
#include "launcher/local_job.h"
#include "launcher/options.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

LocalJob Shell(int ranks, const std::string& script) {
  return {.ranks = ranks,
          .environment = {},
          .program = {"/bin/sh", "-c", script},
          .failure_grace = absl::Seconds(1),
          .termination_grace = absl::Seconds(1)};
}

// A zombie is not: who inherits an orphan may never wait for it.
bool IsAlive(pid_t pid) {
  const std::string status = ReadAll(absl::StrCat("/proc/", pid, "/status"));
  return !status.empty() && !absl::StrContains(status, "State:\tZ");
}

pid_t PidFrom(const std::string& path) {
  for (int i = 0; i < 500; ++i) {
    const std::string text = ReadAll(path);
    if (absl::StrContains(text, '\n')) return std::stoi(text);
    absl::SleepFor(absl::Milliseconds(10));
  }
  return -1;
}

// As distillrun runs it; the guard is a child of the test, which keeps nobody from becoming an orphan.
pid_t Launch(LocalJob job) {
  const pid_t guard = fork();
  if (guard != 0) return guard;
  _exit(RunGuarded([&](int guard_fd) {
    job.guard_fd = guard_fd;
    return RunLocalJob(job).value_or(2);
  }));
}

int ExitCode(pid_t launcher) {
  int status = 0;
  waitpid(launcher, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// All that carry the mark in their environment, whoever their parents are now. A zombie has no environment.
std::vector<pid_t> ProcessesOf(const std::string& mark) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (absl::StrContains(ReadAll(entry.path() / "environ"), "DISTILL_TEST_MARK=" + mark))
      found.push_back(std::stoi(name));
  }
  return found;
}

// A job whose ranks are scripts with children that nobody waits for when the script is gone: one in the background, a
// grandchild that ignores SIGTERM, and one that left for a session of its own and is an orphan from the beginning. Each
// is a shell with a sleep below it. `then`: what rank 1 does once all are there.
LocalJob Orphans(const std::string& folder, const std::string& then) {
  const std::string up = folder + "/$DISTILL_RANK";
  const std::string stubborn = "trap \"\" TERM HUP INT; echo > " + up;
  LocalJob job = Shell(2, "sh -c 'echo > " + up + ".child; sleep 60; :' & " +                                 //
                              "sh -c 'sh -c '\\''" + stubborn + ".grandchild; sleep 60; :'\\'' & wait' & " +  //
                              "(setsid sh -c '" + stubborn + ".orphan; sleep 60; :' &) ; " +                  //
                              "if [ $DISTILL_RANK = 1 ]; then cd " + folder +
                              "; for file in 0.child 0.grandchild 0.orphan 1.child 1.grandchild 1.orphan; do "
                              "until [ -e $file ]; do sleep 0.02; done; done; " +
                              then + "; fi; sleep 60; :");
  job.environment = {{"DISTILL_TEST_MARK", folder}};
  return job;
}

// Of two ranks: nine processes each, with the sleeps.
constexpr size_t kOrphansAndRanks = 18;

bool AwaitProcesses(const std::string& mark, size_t count) {
  for (int i = 0; i < 3000; ++i) {
    if (ProcessesOf(mark).size() >= count) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

bool AwaitNone(const std::string& mark) {
  for (int i = 0; i < 3000; ++i) {
    if (ProcessesOf(mark).empty()) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

TEST_CASE("the usual command line is understood") {
  const auto options = ParseLaunchOptions({"-np", "4", "-x", "A=b=c", "-H", "localhost:4", "prog", "-np", "9"});
  REQUIRE(options.ok());
  CHECK(options->ranks == 4);
  CHECK(options->hosts == std::vector<std::string>{"localhost"});
  CHECK(options->exported == std::vector<std::pair<std::string, std::string>>{{"A", "b=c"}});
  CHECK(options->program == std::vector<std::string>{"prog", "-np", "9"});
  CHECK_FALSE(NeedsHandOver(*options));
}

TEST_CASE("a bad command line says what is wrong") {
  for (const std::vector<std::string>& torchruns :
       {std::vector<std::string>{"--nproc_per_node", "3", "prog", "--a=b"},
        {"--standalone", "--nproc-per-node=3", "--nnodes=1", "prog", "--a=b"}}) {
    const auto meant = ParseLaunchOptions(torchruns);
    REQUIRE(meant.ok());
    CHECK(meant->ranks == 3);
    CHECK_FALSE(meant->has_foreign_option);
    CHECK(meant->program == std::vector<std::string>{"prog", "--a=b"});
  }
  const auto error_of = [](const std::vector<std::string>& arguments) {
    return std::string(ParseLaunchOptions(arguments).status().message());
  };
  CHECK(absl::StrContains(error_of({"--nproc_per_node=gpu", "prog"}), "wants a number of ranks"));
  CHECK(absl::StrContains(error_of({"--nnodes", "2", "--nproc_per_node", "8", "prog"}), "-np N -H HOST,HOST"));
  CHECK(absl::StrContains(error_of({"--rdzv_backend=c10d", "prog"}), "is torchrun's"));
  CHECK(absl::StrContains(error_of({"--nproc_per_node", "8", "-H", "a,b", "prog"}), "how many in all"));
  CHECK(absl::StrContains(std::string(ParseLaunchOptions({"-np", "two", "x"}).status().message()), "'two'"));
  CHECK(absl::StrContains(std::string(ParseLaunchOptions({"prog"}).status().message()), "-np N"));
  CHECK(absl::StrContains(std::string(ParseLaunchOptions({"-np", "2"}).status().message()), "no program"));
  CHECK(absl::StrContains(std::string(ParseLaunchOptions({"--hostfile", "/none", "x"}).status().message()), "/none"));
}

TEST_CASE("several hosts and mpirun's own options go to mpirun as they stand") {
  const std::vector<std::string> hosts = {"-np", "2", "-H", "a,b", "prog", "--x"};
  auto options = ParseLaunchOptions(hosts);
  REQUIRE(options.ok());
  CHECK(NeedsHandOver(*options));
  CHECK(absl::StrJoin(HandOverCommand(*options, hosts), " ") == "mpirun -np 2 -H a,b prog --x");

  const std::vector<std::string> foreign = {"--mca", "btl", "self,tcp", "-np", "2", "prog"};
  options = ParseLaunchOptions(foreign);
  REQUIRE(options.ok());
  CHECK(NeedsHandOver(*options));
  CHECK(absl::StrJoin(HandOverCommand(*options, foreign), " ") == "mpirun --mca btl self,tcp -np 2 prog");
}

TEST_CASE("inside a Slurm allocation of several nodes srun starts the job") {
  setenv("SLURM_JOB_ID", "7", 1);
  setenv("SLURM_NNODES", "2", 1);
  const std::vector<std::string> arguments = {"-np", "16", "prog"};
  const auto options = ParseLaunchOptions(arguments);
  REQUIRE(options.ok());
  CHECK(NeedsHandOver(*options));
  CHECK(absl::StrJoin(HandOverCommand(*options, arguments), " ") == "srun --ntasks=16 prog");
  // The shell of an interactive salloc runs in a step of Slurm's own, with the variables of a task; a task does not
  // start another step.
  setenv("SLURM_PROCID", "0", 1);
  setenv("SLURM_STEP_ID", "4294967290", 1);
  CHECK(NeedsHandOver(*options));
  CHECK(HandOverCommand(*options, arguments)[0] == "srun");
  setenv("SLURM_STEP_ID", "0", 1);
  CHECK_FALSE(NeedsHandOver(*options));
  unsetenv("SLURM_PROCID");
  unsetenv("SLURM_STEP_ID");
  unsetenv("SLURM_JOB_ID");
  unsetenv("SLURM_NNODES");
}

TEST_CASE("every rank learns who it is, where to meet, and the job's secret") {
  const TempFolder temporary;
  const std::string& folder = temporary.path();
  const auto code = RunLocalJob(
      Shell(3,
            "echo $DISTILL_RANK $DISTILL_WORLD_SIZE $DISTILL_LOCAL_RANK $DISTILL_LOCAL_SIZE $DISTILL_RENDEZVOUS "
            "${#DISTILL_JOB_SECRET} > " +
                folder + "/$DISTILL_RANK"));
  REQUIRE(code.ok());
  CHECK(*code == 0);
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<std::string> words =
        absl::StrSplit(ReadAll(absl::StrCat(folder, "/", rank)), absl::ByAnyChar(" \n"));
    REQUIRE(words.size() == 7);
    CHECK(words[0] == absl::StrCat(rank));
    CHECK(words[1] == "3");
    CHECK(words[2] == absl::StrCat(rank));
    CHECK(words[3] == "3");
    CHECK(absl::StartsWith(words[4], "127.0.0.1:"));
    CHECK(words[5] == "64");
  }
}

TEST_CASE("rank 0 alone inherits the socket that the ranks meet at") {
  const TempFolder folder;
  // Rank 0 tells the socket's inode; rank 1 looks for it among its own descriptors, of which it has some.
  const auto code = RunLocalJob(
      Shell(2, "cd " + folder.path() +
                   "; named=$DISTILL_RENDEZVOUS_SOCKET; if [ $DISTILL_RANK = 0 ]; then "
                   "echo \"socket:[${named##*:}]\" > told; mv told inode; "
                   "[ \"$(readlink /proc/$$/fd/${named%%:*})\" = \"$(cat inode)\" ]; exit; fi; "
                   "until [ -e inode ]; do sleep 0.02; done; [ -z \"$named\" ] && [ -e /proc/$$/fd/0 ] || exit 3; "
                   "for fd in /proc/$$/fd/*; do [ \"$(readlink $fd)\" != \"$(cat inode)\" ] || exit 4; done"));
  REQUIRE(code.ok());
  CHECK(*code == 0);
}

TEST_CASE("the first failing rank's exit code is the job's, and nothing that ranks have started is left") {
  const TempFolder folder;
  CHECK(ExitCode(Launch(Orphans(folder.path(), "exit 7"))) == 7);
  CHECK(ProcessesOf(folder.path()) == std::vector<pid_t>{});
}

TEST_CASE("a job that is told to end leaves nothing that ranks have started") {
  const TempFolder folder;
  const pid_t launcher = Launch(Orphans(folder.path(), ":"));
  CHECK(AwaitProcesses(folder.path(), kOrphansAndRanks));
  kill(launcher, SIGTERM);
  CHECK(ExitCode(launcher) == 128 + SIGTERM);
  CHECK(ProcessesOf(folder.path()) == std::vector<pid_t>{});
}

TEST_CASE("a rank that ignores SIGTERM is killed") {
  const absl::Time start = absl::Now();
  const auto code = RunLocalJob(Shell(2,
                                      "if [ $DISTILL_RANK = 1 ]; then exit 3; fi; trap '' TERM; "
                                      "while :; do sleep 0.1; done"));
  REQUIRE(code.ok());
  CHECK(*code == 3);
  CHECK(absl::Now() - start < absl::Seconds(20));
}

TEST_CASE("a rank that stands still is told to end as the others are") {
  const TempFolder temporary;
  const std::string& folder = temporary.path();
  LocalJob job = Shell(2, "cd " + folder +
                              "; if [ $DISTILL_RANK = 1 ]; then until [ -e ready ]; do sleep 0.02; done; exit 5; fi; "
                              "trap 'echo told > told; exit 0' TERM; echo > ready; kill -STOP $$");
  job.termination_grace = absl::Seconds(5);  // a limit; a loaded core may take a while
  const auto code = RunLocalJob(job);
  REQUIRE(code.ok());
  CHECK(*code == 5);
  CHECK(ReadAll(folder + "/told") == "told\n");
}

TEST_CASE("a rank that is a script ends with what it has started") {
  const TempFolder temporary;
  const std::string& folder = temporary.path();
  const auto code = RunLocalJob(Shell(2,
                                      "if [ $DISTILL_RANK = 1 ]; then exit 4; fi; "
                                      "sh -c 'trap \"\" TERM; echo $$ > " +
                                          folder + "/pid; sleep 60; :'; :"));
  REQUIRE(code.ok());
  CHECK(*code == 4);
  const pid_t pid = PidFrom(folder + "/pid");
  for (int i = 0; i < 500 && IsAlive(pid); ++i) absl::SleepFor(absl::Milliseconds(10));  // until init has waited for it
  CHECK_FALSE(IsAlive(pid));
}

TEST_CASE("input goes to rank 0 alone") {
  const TempFolder temporary;
  const std::string& folder = temporary.path();
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(write(ends[1], "hello\n", 6) == 6);
  close(ends[1]);
  const int input = dup(STDIN_FILENO);
  dup2(ends[0], STDIN_FILENO);
  const auto code = RunLocalJob(Shell(3, "cat > " + folder + "/$DISTILL_RANK"));
  dup2(input, STDIN_FILENO);
  close(input);
  close(ends[0]);
  REQUIRE(code.ok());
  CHECK(ReadAll(folder + "/0") == "hello\n");
  CHECK(ReadAll(folder + "/1") == "");
  CHECK(ReadAll(folder + "/2") == "");
}

TEST_CASE("a rank ended by a signal gives 128 plus its number") {
  const auto code = RunLocalJob(Shell(1, "kill -SEGV $$"));
  REQUIRE(code.ok());
  CHECK(*code == 128 + SIGSEGV);
}

TEST_CASE("a program that does not exist is an error that names it") {
  LocalJob job = Shell(2, "");
  job.program = {"/no/such/program"};
  const auto code = RunLocalJob(job);
  CHECK(code.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(std::string(code.status().message()), "/no/such/program"));
}

TEST_CASE("killing either process of the launcher leaves nothing behind") {
  for (const bool kills_guard : {true, false}) {
    CAPTURE(kills_guard);
    const TempFolder folder;
    const pid_t guard = Launch(Orphans(folder.path(), ":"));
    CHECK(AwaitProcesses(folder.path(), kOrphansAndRanks));
    pid_t killed = guard;
    if (!kills_guard) {
      const std::string children = ReadAll(absl::StrCat("/proc/", guard, "/task/", guard, "/children"));
      REQUIRE(!children.empty());
      killed = std::stoi(children);
    }
    kill(killed, SIGKILL);
    CHECK(ExitCode(guard) == 128 + SIGKILL);
    CHECK(AwaitNone(folder.path()));
  }
}

}  // namespace
}  // namespace distill
