#include "launcher/hand_over.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/job_secret.h"
#include "launcher/mpirun_job.h"
#include "libdistill/world/environment.h"
#include "libdistill/world/host_id.h"
#include "libdistill/world/slurm.h"

namespace distill {
namespace {

bool IsThisHost(const std::string& name) { return name == "localhost" || name == "127.0.0.1" || name == HostName(); }

// Inside an allocation (its batch script, or salloc's shell), but not inside an srun step, where ranks live.
bool InSlurmAllocation() {
  const Environment environment([](const char* name) -> const char* { return std::getenv(name); });
  return environment.Has("SLURM_JOB_ID") && !InsideSrunStep(environment);
}

bool SpansSlurmNodes() {
  const char* nodes = std::getenv("SLURM_NNODES");
  int count = 0;
  return InSlurmAllocation() && nodes != nullptr && absl::SimpleAtoi(nodes, &count) && count > 1;
}

}  // namespace

bool NeedsHandOver(const LaunchOptions& options) {
  if (options.has_foreign_option || SpansSlurmNodes()) return true;
  for (const std::string& host : options.hosts) {
    if (!IsThisHost(host)) return true;
  }
  return false;
}

bool IsForSrun(const LaunchOptions& options) { return InSlurmAllocation() && !options.has_foreign_option; }

std::vector<std::string> HandOverCommand(const LaunchOptions& options, absl::Span<const std::string> arguments) {
  if (!IsForSrun(options)) {
    std::vector<std::string> command = {"mpirun"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  std::vector<std::string> command = {"srun", absl::StrCat("--ntasks=", options.ranks)};
  if (!options.hosts.empty()) command.push_back(absl::StrCat("--nodelist=", absl::StrJoin(options.hosts, ",")));
  command.insert(command.end(), options.program.begin(), options.program.end());
  return command;
}

absl::StatusOr<int> HandOver(const LaunchOptions& options, absl::Span<const std::string> arguments, int guard_fd) {
  const std::vector<std::string> command = HandOverCommand(options, arguments);
  absl::Status error;
  if (!IsForSrun(options)) {
    PrepareMpirun(command);
    absl::StatusOr<int> code =
        RunMpirun({.command = command, .guard_fd = guard_fd, .notice_grace = options.notice_grace});
    if (code.ok()) return code;
    error = code.status();
  } else {  // srun passes this environment on to every rank
    for (const auto& [name, value] : options.exported) setenv(name.c_str(), value.c_str(), 1);
    ExportJobSecret();
    std::vector<char*> raw;
    for (const std::string& word : command) raw.push_back(const_cast<char*>(word.c_str()));
    raw.push_back(nullptr);
    execvp(raw[0], raw.data());
    error = absl::InvalidArgumentError(absl::StrCat("cannot start ", command[0], ": ", std::strerror(errno)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("this job is for ", command[0], ": ", error.message(), ". Install it, or start on this host alone"));
}

}  // namespace distill
