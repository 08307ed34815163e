// distillrun: starts the ranks of a job.
#include <cstdio>
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

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const absl::StatusOr<distill::LaunchOptions> options = distill::ParseLaunchOptions(arguments);
  if (!options.ok()) return Fail(options.status());
  if (options->help) return std::fputs(distill::LaunchHelp().c_str(), stdout) < 0;
  if (options->version) return std::puts(distill::VersionLine().c_str()) < 0;
  if (distill::NeedsHandOver(*options)) return Fail(distill::HandOver(*options, arguments));

  const absl::StatusOr<int> exit_code =
      distill::RunLocalJob({.ranks = options->ranks, .environment = options->exported, .program = options->program});
  return exit_code.ok() ? *exit_code : Fail(exit_code.status());
}
