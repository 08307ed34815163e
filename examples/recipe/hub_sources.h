// Models and data sets that are names of the hub, in a job that may be resumed. A recipe binds the options that may
// hold such names to their fields, once:
//
//   std::vector<HubOption> HubOptionsOf(MyOptions& options) {
//     return {ModelOption("student_model", options.student_model, options.student_revision),
//             RowsOption("dataset_name", options.dataset_name, options.dataset_split, options.dataset_revision)};
//   }
//   ...
//   std::vector<HubOption> sources = HubOptionsOf(options);
//   DISTILL_RETURN_IF_ERROR(PinSources(run, options.trainer, sources));  // names have their commits
//   options.kept = OptionsToKeep(options);
//   DISTILL_RETURN_IF_ERROR(FetchSources(run, sources));                 // names are folders
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "examples/recipe/job.h"
#include "examples/recipe/text_sources.h"
#include "libdistill/run/hub_paths.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

// An option and the fields that it is bound to, which must outlive it.
struct HubOption {
  std::string option;               // its name, for messages
  HubSource source;                 // what is taken of a repository
  std::string* value = nullptr;     // paths or names, with commas where there are several; set when one of them changes
  std::string* revision = nullptr;  // of names without one; emptied once these have their commits. Null: there is none
  std::vector<std::string> names;   // the parts of `value`
};

HubOption ModelOption(const std::string& option, std::string& value, std::string* revision = nullptr);
HubOption RowsOption(const std::string& option, std::string& value, const std::string& split,
                     std::string* revision = nullptr);
// dataset_name, which may be several.
HubOption RowsOption(SourceOptions& sources);

// Every rank must call it; blocks. Names of the hub get the commit that they are now or, where the run resumes, that
// with which it began: what the resolved_config.yaml beside the checkpoint, or in output_dir, has under the option's
// name.
[[nodiscard]] absl::Status PinSources(RunContext& run, const TrainerOptions& trainer, std::vector<HubOption>& sources);

// Every rank must call it, after PinSources; blocks. Names of the hub become folders, which each host downloads once
// (FetchOnEachHost, run/hub_paths.h).
[[nodiscard]] absl::Status FetchSources(RunContext& run, std::vector<HubOption>& sources);

// For BeginJob and AgreeOnFolders.
NamedSources NamedSourcesOf(const std::vector<HubOption>& sources);

// For one process alone, which needs neither weights nor rows, as a plan does: models that are names of the hub become
// folders with their config.json. Blocks. Errors begin with the option and, where the hub is out of reach, say what
// will do in its place.
[[nodiscard]] absl::Status FetchConfigs(const std::vector<HubOption>& sources);

}  // namespace distill
