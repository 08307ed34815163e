// The command line of a recipe's program: the recipe's options, and what each of them can be asked for instead of
// training. Sees no torch.
//
//   DISTILL_ASSIGN_OR_RETURN(const auto command, ParseCommand<SquadOptions>(argc, argv, program));
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "libdistill/config/command_line.h"
#include "libdistill/core/describe.h"
#include "libdistill/core/description.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/plan/plan_flags.h"

namespace distill {

// On the command line alone. A recipe with flags of its own derives from it.
struct RecipeFlags : PlanFlags {
  bool dry_run = false;
};

template <class V>
void Describe(V& v, RecipeFlags& o) {
  v.Group("Instead of training");
  Describe(v, static_cast<PlanFlags&>(o));
  v.Field("dry_run", o.dry_run,
          "try the whole job: one step of few short samples, whose output goes to a temporary folder and is removed");
}

template <class Options, class Flags = RecipeFlags>
struct RecipeCommand {
  Options options;
  Flags flags;
  CommandLine line;
};

// InvalidArgument: flags that contradict one another.
[[nodiscard]] absl::Status CheckRecipeFlags(const RecipeFlags& flags);

// The command line, and the config file that it names. Options with a function Settle() have it called once their
// values are there. `check`: what more must be there or fit together, if anything.
// InvalidArgument as in ParseCommandLine, for ranges, and check's.
template <class Options, class Flags = RecipeFlags>
[[nodiscard]] absl::StatusOr<RecipeCommand<Options, Flags>> ParseCommand(
    int argc, const char* const* argv, const ProgramText& program,
    const std::function<absl::Status(const Options&, const Flags&)>& check = nullptr) {
  RecipeCommand<Options, Flags> command;
  const Description settings = DescriptionOf(command.options), flags = DescriptionOf(command.flags);
  DISTILL_ASSIGN_OR_RETURN(command.line, ParseCommandLine(argc, argv, program, settings, flags));
  if (!command.line.message.empty()) return command;
  DISTILL_RETURN_IF_ERROR(settings.Check());
  if constexpr (requires { command.options.Settle(); }) command.options.Settle();
  DISTILL_RETURN_IF_ERROR(CheckRecipeFlags(command.flags));
  if (check != nullptr) DISTILL_RETURN_IF_ERROR(check(command.options, command.flags));
  return command;
}

}  // namespace distill
