// The command line of distill_llm: a config file, settings that override it, and what the program is to do.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/config/llm_config.h"

namespace distill {

struct ProgramFlags {
  bool show_batch = false;
  bool plan = false;
  int64_t world_size = 0;      // to plan for; 0: as launched
  int64_t ranks_per_host = 0;  // to plan for; 0: all, or as launched
  std::string generate;        // a model folder: answer `prompt` instead of training
  std::string prompt;
  int64_t max_new_tokens = 256;
  double sampling_temperature = 0;
  int64_t top_k = 0;
  double top_p = 1.0;
};

struct CommandLine {
  LlmConfig config;
  ProgramFlags flags;
  std::string message;  // not empty: print this and end well (--help, --version)
};

// "--name value" and "--name=value", with "-" and "_" alike; a yes-or-no setting needs no value. InvalidArgument names
// the option, or for an unknown one the nearest known; errors of the config file as in ReadConfigFile. The result has
// passed CheckTogether, unless only text is to be generated; a plan needs the models of those settings alone.
[[nodiscard]] absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

}  // namespace distill
