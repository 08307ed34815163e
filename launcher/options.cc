#include "launcher/options.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int kMaxRanksOfOneHost = 4096;

void AddHost(absl::string_view name_and_slots, std::vector<std::string>& hosts) {
  std::string name(absl::StripAsciiWhitespace(name_and_slots.substr(0, name_and_slots.find(':'))));
  if (!name.empty() && std::find(hosts.begin(), hosts.end(), name) == hosts.end()) hosts.push_back(std::move(name));
}

// Lines of "name [slots=N ...]", with # comments: mpirun's format.
absl::Status AddHostFile(const std::string& path, std::vector<std::string>& hosts) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read the host file ", path));
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (!words.empty()) AddHost(words[0], hosts);
  }
  if (hosts.empty()) return absl::InvalidArgumentError(absl::StrCat("the host file ", path, " names no host"));
  return absl::OkStatus();
}

absl::Status AddExported(const std::string& text, LaunchOptions& options) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (name.empty()) return absl::InvalidArgumentError(absl::StrCat("-x wants NAME or NAME=VALUE, not '", text, "'"));
  if (equals != std::string::npos) {
    options.exported.emplace_back(name, text.substr(equals + 1));
  } else if (const char* value = std::getenv(name.c_str()); value != nullptr) {
    options.exported.emplace_back(name, value);
  }
  return absl::OkStatus();
}

absl::Status TakeRanks(const std::string& name, const std::string& value, LaunchOptions& options) {
  if (absl::SimpleAtoi(value, &options.ranks) && options.ranks >= 1 && options.ranks <= kMaxRanksOfOneHost) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, " wants a number of ranks from 1 to ", kMaxRanksOfOneHost, ", not '", value, "'"));
}

// torchrun's options, which it takes with "_" and "-" alike. False for an option that is not torchrun's.
absl::StatusOr<bool> TakeTorchrunOption(const std::string& name, const std::string& value, LaunchOptions& options) {
  const std::string dashed = absl::StrReplaceAll(name, {{"_", "-"}});
  if (dashed == "--nproc-per-node") {
    options.is_per_host = true;
    DISTILL_RETURN_IF_ERROR(TakeRanks(name, value, options));
    return true;
  }
  if (dashed == "--nnodes" && value == "1") return true;
  for (const absl::string_view other : {"--nnodes", "--node-rank", "--master-addr", "--master-port", "--max-restarts",
                                        "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf"}) {
    if (dashed != other) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name, " is torchrun's: distillrun starts the ranks of all hosts from one of them; say how many in ",
        "all, and where: distillrun -np N -H HOST,HOST PROGRAM"));
  }
  return false;
}

// One option with its value. Returns false for an option that is not ours.
absl::StatusOr<bool> TakeOption(const std::string& name, const std::string& value, LaunchOptions& options) {
  if (name == "-np" || name == "-n" || name == "-c" || name == "--np" || name == "--n") {
    DISTILL_RETURN_IF_ERROR(TakeRanks(name, value, options));
    return true;
  }
  DISTILL_ASSIGN_OR_RETURN(const bool is_torchruns, TakeTorchrunOption(name, value, options));
  if (is_torchruns) return true;
  if (name == "-H" || name == "-host" || name == "--host") {
    for (absl::string_view host : absl::StrSplit(value, ',')) AddHost(host, options.hosts);
    return true;
  }
  if (name == "--hostfile" || name == "-hostfile" || name == "--machinefile" || name == "-machinefile") {
    DISTILL_RETURN_IF_ERROR(AddHostFile(value, options.hosts));
    return true;
  }
  if (name == "-x") {
    DISTILL_RETURN_IF_ERROR(AddExported(value, options));
    return true;
  }
  return false;
}

absl::Status TakeEnvironment(LaunchOptions& options) {
  const char* const grace = std::getenv("DISTILL_NOTICE_GRACE");
  if (grace == nullptr) return absl::OkStatus();
  constexpr absl::Duration kMost = absl::Hours(24 * 365);
  absl::Duration& parsed = options.notice_grace;
  if (ParseField(grace, parsed) && parsed >= absl::ZeroDuration() && parsed <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("DISTILL_NOTICE_GRACE wants a number of seconds, from 0 to a year's, not '", grace, "'"));
}

}  // namespace

absl::StatusOr<LaunchOptions> ParseLaunchOptions(absl::Span<const std::string> arguments) {
  LaunchOptions options;
  DISTILL_RETURN_IF_ERROR(TakeEnvironment(options));
  size_t i = 0;
  for (; i < arguments.size() && absl::StartsWith(arguments[i], "-"); ++i) {
    const std::string& name = arguments[i];
    if (name == "-h" || name == "--help") return (options.help = true, options);
    if (name == "-V" || name == "--version") return (options.version = true, options);
    if (name == "--tune") {
      options.tune = true;
      if (i + 2 < arguments.size() || (i + 2 == arguments.size() && absl::StartsWith(arguments[i + 1], "-"))) {
        return absl::InvalidArgumentError(
            "--tune comes last, with at most a file: distillrun -np N -H A,B --tune [FILE]");
      }
      break;
    }
    if (name == "--standalone") continue;  // torchrun's, for one host
    const size_t equals = absl::StartsWith(name, "--n") || absl::StartsWith(name, "--r") ? name.find('=') : name.npos;
    const std::string next = i + 1 < arguments.size() ? arguments[i + 1] : "";
    const std::string value = equals == name.npos ? next : name.substr(equals + 1);
    DISTILL_ASSIGN_OR_RETURN(const bool ours, TakeOption(name.substr(0, equals), value, options));
    if (!ours) return (options.has_foreign_option = true, options);
    if (equals == name.npos) ++i;
  }
  if (i < arguments.size()) options.program.assign(arguments.begin() + i, arguments.end());
  if (options.program.empty()) return absl::InvalidArgumentError("no program to start (see distillrun --help)");
  if (options.is_per_host && options.hosts.size() > 1) {
    return absl::InvalidArgumentError("--nproc_per_node is for one host; over several say how many in all: -np N");
  }
  if (options.ranks == 0) return absl::InvalidArgumentError("say how many ranks to start: distillrun -np N PROGRAM");
  return options;
}

std::string LaunchHelp() {
  return "Usage: distillrun -np N [options] PROGRAM [arguments]\n"
         "\n"
         "Starts N ranks of PROGRAM. On this host it starts them itself; over several hosts it hands over to mpirun,\n"
         "inside a Slurm allocation of several nodes to srun.\n"
         "\n"
         "  -np N              how many ranks (also -n, -c, --np, and on one host torchrun's --nproc_per_node)\n"
         "  -H HOST[:N],...    where (also --host); --hostfile FILE: the same from a file\n"
         "  -x NAME[=VALUE]    an environment variable for every rank\n"
         "  --tune [FILE]      last, instead of a program: measure what communication costs here; write it to FILE\n"
         "                     (else ~/.config/libdistill/tuning.yaml) for comm_tuning_file\n"
         "  --help, --version\n"
         "\n"
         "Any other option is mpirun's: the whole command line then goes to mpirun as it stands.\n"
         "The exit code is that of the first rank that failed, 85 when all ended with a checkpoint, or 0. SIGTERM, "
         "SIGUSR1,\n"
         "SIGUSR2 and SIGQUIT go to the ranks; SIGINT, and a second SIGTERM, end all; SIGHUP does nothing.\n"
         "Ranks that still run 100 s after SIGTERM are ended; DISTILL_NOTICE_GRACE in the environment is another "
         "number.\n";
}

}  // namespace distill
