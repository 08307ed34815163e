// What every recipe's program has: --help, --config_file, --plan, --dry_run, and one job on all ranks.
//
//   int main(int argc, char** argv) {
//     distill::Recipe<SquadOptions> squad = {.name = "squad", .description = "Trains a model that answers questions."};
//     squad.run = Train;      // absl::Status(RunContext& run, const SquadOptions& options), on every rank
//     squad.plan = Plan;      // absl::StatusOr<std::string>(const SquadOptions&, const RecipeFlags&, const World&)
//     squad.shrink = Shrink;  // void(SquadOptions& options)
//     squad.where = Where;    // std::string(const SquadOptions& options)
//     return distill::RunRecipe(argc, argv, squad);
//   }
//
// A job begins with BeginJob (examples/recipe/job.h).
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "examples/recipe/command.h"
#include "examples/recipe/dry_run.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/run/run.h"
#include "libdistill/world/process.h"

namespace distill {

// `Options`: a struct with the fields `trainer` (TrainerOptions) and `run` (RunOptions), and a Describe that describes
// these, too. `Flags`: RecipeFlags, or a struct that derives from it, with a Describe of its own.
template <class Options, class Flags = RecipeFlags>
struct Recipe {
  using Command = RecipeCommand<Options, Flags>;
  using Job = std::function<absl::Status(RunContext& run)>;

  std::string name;         // of the program
  std::string description;  // one sentence for --help
  // The whole job; called on every rank.
  std::function<absl::Status(RunContext& run, const Options& options)> run = nullptr;
  // --plan: a text for people, made by one process alone. Empty: refused. ResourceExhausted: the job does not fit.
  std::function<absl::StatusOr<std::string>(const Options& options, const Flags& flags, const World& world)> plan =
      nullptr;
  // Where what the job made lies, and how to use it: logged once it is done, but not after a dry run, which leaves
  // nothing. Empty, or an empty text: nothing is said.
  std::function<std::string(const Options& options)> where = nullptr;
  // --dry_run: makes few short samples of the options' data; that it is one step is seen to. Empty: refused.
  std::function<void(Options& options)> shrink = nullptr;
  // What must be there or fit together beyond ranges. Empty: nothing.
  std::function<absl::Status(const Options& options, const Flags& flags)> check = nullptr;
  // What flags of the recipe's own ask for instead of training, on every rank; null where they do not. Empty: nothing.
  std::function<Job(const Command& command)> instead = nullptr;
};

// Whether the recipe has what is asked of it. InvalidArgument names the option.
template <class Options, class Flags>
absl::Status CheckHas(const Recipe<Options, Flags>& recipe, const RecipeFlags& flags) {
  const char* const lacks = flags.plan && recipe.plan == nullptr        ? "--plan"
                            : flags.dry_run && recipe.shrink == nullptr ? "--dry_run"
                                                                        : nullptr;
  return lacks == nullptr ? absl::OkStatus()
                          : absl::InvalidArgumentError(absl::StrCat(lacks, ": ", recipe.name, " has none"));
}

// Prints on rank 0, or where no rank can be told; 0.
int PrintMessage(const std::string& message);
// Needs no other ranks, which may not even exist yet; only the first one prints. 1 where the job does not fit
// (ResourceExhausted), 2 for other errors.
int PrintPlan(const std::function<absl::StatusOr<std::string>(const World& world)>& plan);

// The whole of main: the exit code, as Run's (run/run.h). What is wrong with a rank's command line or config file is
// said once, and ends all ranks.
template <class Options, class Flags>
int RunRecipe(int argc, char** argv, const Recipe<Options, Flags>& recipe) {
  PrepareProcess();
  absl::StatusOr<RecipeCommand<Options, Flags>> command = ParseCommand<Options, Flags>(
      argc, argv, {.name = recipe.name.c_str(), .about = recipe.description.c_str()}, recipe.check);
  if (command.ok() && !command->line.message.empty()) return PrintMessage(command->line.message);
  if (command.ok()) {
    if (absl::Status has = CheckHas(recipe, command->flags); !has.ok()) command = std::move(has);
  }
  if (command.ok() && command->flags.plan) {
    return PrintPlan([&](const World& world) { return recipe.plan(command->options, command->flags, world); });
  }
  RunOptions options = command.ok() ? command->options.run : RunOptions();
  options.input = command.status();
  return Run(options, [&](RunContext& run) -> absl::Status {
    if (run.rank() == 0) {
      for (const std::string& note : command->line.notes) LogInfo(note);
    }
    if (recipe.instead != nullptr) {
      if (const auto job = recipe.instead(*command); job != nullptr) return job(run);
    }
    if (command->flags.dry_run) return DryRun(run, recipe.name, command->options, recipe.shrink, recipe.run);
    DISTILL_RETURN_IF_ERROR(recipe.run(run, command->options));
    if (run.rank() != 0 || recipe.where == nullptr) return absl::OkStatus();
    if (const std::string text = recipe.where(command->options); !text.empty()) LogInfo(text);
    return absl::OkStatus();
  });
}

}  // namespace distill
