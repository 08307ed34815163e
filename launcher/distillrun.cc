// distillrun: starts the ranks of a job.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/hand_over.h"
#include "launcher/local_job.h"
#include "launcher/options.h"
#include "libdistill/core/version.h"

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

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  absl::StatusOr<distill::LaunchOptions> options = distill::ParseLaunchOptions(arguments);
  if (options.ok() && options->tune) {
    *std::find(arguments.begin(), arguments.end(), "--tune") = options->program[0] = TuneProgram();
  }
  if (!options.ok()) return Fail(options.status());
  if (options->help) return std::fputs(distill::LaunchHelp().c_str(), stdout) < 0;
  if (options->version) return std::puts(distill::VersionLine().c_str()) < 0;
  if (distill::NeedsHandOver(*options)) return Fail(distill::HandOver(*options, arguments));

  const absl::StatusOr<int> exit_code =
      distill::RunLocalJob({.ranks = options->ranks, .environment = options->exported, .program = options->program});
  return exit_code.ok() ? *exit_code : Fail(exit_code.status());
}
