// The command line of a program: its options by name, a config file that they override, and --help.
//
//   DISTILL_ASSIGN_OR_RETURN(CommandLine line, ParseCommandLine(argc, argv, program, settings, flags));
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/core/description.h"

namespace distill {

struct ProgramText {
  const char* name;
  const char* about;  // one sentence, for --help
  const char* positional =
      nullptr;  // further arguments, as usage names them: "FOLDER FILE..."; null: there may be none
  const char* positional_help = "";  // lines for --help that say what these are
};

struct CommandLine {
  std::string message = {};                  // not empty: print this and end well (--help, --help KEY, --version)
  std::vector<std::string> positional = {};  // arguments without a name
  std::vector<std::string> notes = {};       // for the user: what was accepted and has no effect here
};

// "--name value" and "--name=value", with "-" and "_" alike; a yes-or-no option needs no value. `settings` may also
// stand in --config_file PATH, or in a .yaml, .yml or .json file that is given without a name where no further
// arguments are expected; `flags` are for the command line alone. Their fields are set, and each is within its limits;
// Description::Check of both is the program's to call. InvalidArgument names the option, or for an unknown one the
// nearest known; errors of the config file as in ReadConfigFile.
[[nodiscard]] absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                                           const ProgramText& program, const Description& settings,
                                                           const Description& flags);

}  // namespace distill
