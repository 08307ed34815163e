#include "examples/recipe/command.h"

namespace distill {

absl::Status CheckRecipeFlags(const RecipeFlags& flags) {
  if (flags.plan && flags.dry_run) {
    return absl::InvalidArgumentError("--plan and --dry_run are two things to do: give one of them");
  }
  return CheckPlanFlags(flags);
}

}  // namespace distill
