#include "launcher/hand_over.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/local_job.h"
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

void SetUnlessThere(const char* name, const std::string& value) { setenv(name, value.c_str(), /*overwrite=*/0); }

void PrepareMpirun() {
  if (geteuid() == 0) {  // containers run as root as a rule; mpirun refuses that unless it is told
    SetUnlessThere("OMPI_ALLOW_RUN_AS_ROOT", "1");
    SetUnlessThere("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  // ssh alone would try a host that does not answer for more than two minutes. Another agent has options of its own.
  if (std::getenv("OMPI_MCA_plm_rsh_agent") == nullptr) {
    SetUnlessThere("OMPI_MCA_plm_rsh_args", "-o ConnectTimeout=15 -o ConnectionAttempts=1");
  }
}

}  // namespace

bool NeedsHandOver(const LaunchOptions& options) {
  if (options.has_foreign_option || SpansSlurmNodes()) return true;
  for (const std::string& host : options.hosts) {
    if (!IsThisHost(host)) return true;
  }
  return false;
}

std::vector<std::string> HandOverCommand(const LaunchOptions& options, absl::Span<const std::string> arguments) {
  if (!InSlurmAllocation() || options.has_foreign_option) {
    std::vector<std::string> command = {"mpirun"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  std::vector<std::string> command = {"srun", absl::StrCat("--ntasks=", options.ranks)};
  if (!options.hosts.empty()) command.push_back(absl::StrCat("--nodelist=", absl::StrJoin(options.hosts, ",")));
  command.insert(command.end(), options.program.begin(), options.program.end());
  return command;
}

absl::Status HandOver(const LaunchOptions& options, absl::Span<const std::string> arguments) {
  const std::vector<std::string> command = HandOverCommand(options, arguments);
  if (command[0] == "srun") {  // srun passes this environment on to every rank
    for (const auto& [name, value] : options.exported) setenv(name.c_str(), value.c_str(), 1);
    if (std::getenv("DISTILL_JOB_SECRET_FILE") == nullptr) SetUnlessThere("DISTILL_JOB_SECRET", MakeJobSecret());
  } else {
    PrepareMpirun();
  }
  std::vector<char*> raw;
  for (const std::string& word : command) raw.push_back(const_cast<char*>(word.c_str()));
  raw.push_back(nullptr);
  execvp(raw[0], raw.data());
  return absl::InvalidArgumentError(absl::StrCat("this job is for ", command[0], ", which cannot be started: ",
                                                 std::strerror(errno), ". Install it, or start on this host alone"));
}

}  // namespace distill
