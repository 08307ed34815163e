#include "examples/recipe/command.h"

namespace distill {

absl::Status CheckRecipeFlags(const RecipeFlags& flags) {
  if (flags.plan && flags.dry_run) {
    return absl::InvalidArgumentError("--plan and --dry_run are two things to do: give one of them");
  }
  if (flags.plan || (!flags.world_size && !flags.ranks_per_host)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--world_size and --ranks_per_host go with --plan; a run has the ranks that its launcher starts");
}

}  // namespace distill
