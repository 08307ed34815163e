// distillrun's command line: a subset of mpirun's, so that what is not understood can be handed over as it stands.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace distill {

struct LaunchOptions {
  bool help = false;
  bool version = false;
  int ranks = 0;                                              // -np, -n, -c, --np, --nproc_per_node
  bool is_per_host = false;                                   // --nproc_per_node said how many
  std::vector<std::string> hosts;                             // -H, --host, --hostfile: names without slots, once each
  std::vector<std::pair<std::string, std::string>> exported;  // -x NAME=VALUE
  std::vector<std::string> program;                           // program and its arguments
  // How long ranks may run on after a notice (SIGTERM): a checkpoint is committed within 90 s. $DISTILL_NOTICE_GRACE.
  absl::Duration notice_grace = absl::Seconds(100);
  // --tune [FILE], last of the options: it is the program distill_tune with that argument.
  bool tune = false;
  // An option that only mpirun knows: parsing ended there, and mpirun gets the whole command line.
  bool has_foreign_option = false;
};

// InvalidArgument: options of torchrun's about several hosts, no program, no or a bad number of ranks, a host file that
// cannot be read, a grace that is no number.
[[nodiscard]] absl::StatusOr<LaunchOptions> ParseLaunchOptions(absl::Span<const std::string> arguments);

std::string LaunchHelp();

}  // namespace distill
