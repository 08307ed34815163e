// distillrun: starts the ranks of a job.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/guard.h"
#include "launcher/hand_over.h"
#include "launcher/local_job.h"
#include "launcher/options.h"
#include "libdistill/core/version.h"
#include "libdistill/world/claims.h"
#include "libdistill/world/process.h"

namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "distillrun: %s\n", std::string(status.message()).c_str());
  return 2;
}

// It lies beside this program.
std::string TuneProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "distill_tune";
}

absl::Status CheckNotInJob() {
  return distill::CheckNoOuterJob(
      distill::Environment([](const char* name) -> const char* { return std::getenv(name); }));
}

}  // namespace

int main(int argc, char** argv) {
  distill::OpenStandardStreams();
  std::vector<std::string> arguments(argv + 1, argv + argc);
  absl::StatusOr<distill::LaunchOptions> options = distill::ParseLaunchOptions(arguments);
  if (options.ok() && options->tune) {
    *std::find(arguments.begin(), arguments.end(), "--tune") = options->program[0] = TuneProgram();
  }
  if (!options.ok()) return Fail(options.status());
  if (options->help) return std::fputs(distill::LaunchHelp().c_str(), stdout) < 0;
  if (options->version) return std::puts(distill::VersionLine().c_str()) < 0;
  const bool hand_over = distill::NeedsHandOver(*options);
  if (const absl::Status outer = CheckNotInJob(); !outer.ok()) return Fail(outer);
  const auto start = [&](int guard_fd) {
    const absl::StatusOr<int> exit_code = hand_over ? distill::HandOver(*options, arguments, guard_fd)
                                                    : distill::RunLocalJob({.ranks = options->ranks,
                                                                            .environment = options->exported,
                                                                            .program = options->program,
                                                                            .notice_grace = options->notice_grace,
                                                                            .guard_fd = guard_fd});
    return exit_code.ok() ? *exit_code : Fail(exit_code.status());
  };
  return hand_over && distill::IsForSrun(*options) ? start(-1) : distill::RunGuarded(start);
}
