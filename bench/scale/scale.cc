// How a job grows with its ranks, without LibTorch: memory, descriptors, messages and times a rank. bench/run scale
// starts it on emulated hosts and draws the table.
//
//   distillrun -np 4 build/bin/bench_scale
//   build/bin/bench_scale --fork          is a host: starts DISTILL_LOCAL_SIZE ranks, from DISTILL_RANK on
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/arguments.h"
#include "bench/scale/fabric_messages.h"
#include "bench/scale/rank.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_open.h"
#include "libdistill/world/environment.h"

namespace distill {
namespace {

int RunRank(const ScaleOptions& options, bool until_lost) {
  const absl::Status status = until_lost ? RunUntilLost(options) : RunScaleRank(options);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

// libfabric looks around for 0.3 s of a core when it is first asked; what it then knows, the ranks of a host inherit.
// For 256 ranks on two cores that is 2 s in place of 40.
absl::Status LoadFabric() {
  DISTILL_RETURN_IF_ERROR(CountFabricMessages());
  return FindFabrics({}).status();
}

[[noreturn]] void BecomeRank(int64_t rank, int64_t local_rank, const ScaleOptions& options, bool until_lost) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("DISTILL_RANK", absl::StrCat(rank).c_str(), 1);
  setenv("DISTILL_LOCAL_RANK", absl::StrCat(local_rank).c_str(), 1);
  const int code = RunRank(options, until_lost);
  std::fflush(nullptr);
  _exit(code);
}

// Where a rank may be killed, its death alone does not fail the host.
absl::StatusOr<int> RunHost(const ScaleOptions& options, bool until_lost) {
  const Environment environment(&std::getenv);
  DISTILL_ASSIGN_OR_RETURN(const int64_t first, environment.Number("DISTILL_RANK", 0, 1 << 20));
  DISTILL_ASSIGN_OR_RETURN(const int64_t ranks, environment.Number("DISTILL_LOCAL_SIZE", 1, 1 << 20));
  DISTILL_RETURN_IF_ERROR(LoadFabric());
  std::vector<pid_t> children;
  for (int64_t i = 0; i < ranks; ++i) {
    const pid_t child = fork();
    if (child == 0) BecomeRank(first + i, i, options, until_lost);
    if (child < 0) return absl::ResourceExhaustedError(absl::StrCat("no process for rank ", first + i));
    children.push_back(child);
  }
  int failed = 0;
  for (size_t i = 0; i < children.size(); ++i) {
    int result = 0;
    waitpid(children[i], &result, 0);
    if (result == 0 || (until_lost && WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL)) continue;
    std::fprintf(
        stderr, "error: rank %lld ended with %s %d\n", static_cast<long long>(first) + static_cast<long long>(i),
        WIFSIGNALED(result) ? "signal" : "exit code", WIFSIGNALED(result) ? WTERMSIG(result) : WEXITSTATUS(result));
    ++failed;
  }
  return failed == 0 ? 0 : 1;
}

int Main(const ScaleOptions& options, bool forks, bool until_lost) {
  const absl::StatusOr<int> code = forks ? RunHost(options, until_lost) : [&]() -> absl::StatusOr<int> {
    DISTILL_RETURN_IF_ERROR(LoadFabric());
    return RunRank(options, until_lost);
  }();
  if (code.ok()) return *code;
  std::fprintf(stderr, "error: %s\n", std::string(code.status().message()).c_str());
  return 1;
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments("How a job grows with its ranks");
  distill::ScaleOptions options;
  bool forks = false, until_lost = false;
  double timeout_seconds = 120;
  arguments.Add("--bytes", options.bytes, "of a call").Between(int64_t{8}, int64_t{1} << 30);
  arguments.Add("--timeout", timeout_seconds, "of the meeting and of a call, in seconds").Positive();
  arguments.AddFlag("--fork", forks, "be a host: start all of its ranks");
  arguments.AddFlag("--until-lost", until_lost, "make all-reduces until one fails");
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  options.timeout = absl::Seconds(timeout_seconds);
  return distill::Main(options, forks, until_lost);
}
