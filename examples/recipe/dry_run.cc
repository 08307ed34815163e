#include "examples/recipe/dry_run.h"

#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/log.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/json_value.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

// "loss 2.31, eval_loss 2.29": the losses of the step, and what evaluations gave, as the run's log has them.
absl::StatusOr<std::vector<std::string>> LoggedLosses(const std::string& folder) {
  std::vector<std::string> losses;
  const std::string file = JoinPath(folder, "metrics.jsonl");
  if (!FileExists(file)) return losses;
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    DISTILL_ASSIGN_OR_RETURN(const JsonValue record, ParseJson(line));
    const bool ends = record.Find("train_runtime") != nullptr;  // it repeats the others'
    for (const auto& [name, value] : record.members) {
      const bool is_loss = name == "loss" || absl::StartsWith(name, "eval_");
      if (ends || !is_loss || value.kind != JsonValue::Kind::kNumber) continue;
      losses.push_back(absl::StrFormat("%s %.6g", name, value.number));
    }
  }
  return losses;
}

// "max_length 512 -> 128"
std::vector<std::string> Changes(const DryRunReport& report) {
  std::vector<std::string> changes;
  for (size_t i = 0; i < report.asked.size() && i < report.settled.size(); ++i) {
    const auto& [name, before] = report.asked[i];
    const std::string& now = report.settled[i].second;
    if (now == before || name == "output_dir") continue;
    const auto shown = [](const std::string& value) { return value.empty() ? "''" : value; };
    changes.push_back(absl::StrCat(name, " ", shown(before), " -> ", shown(now)));
  }
  return changes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TemporaryFolder>> TemporaryFolder::Make(RunContext& run) {
  std::string path;
  absl::Status made;
  if (run.rank() == 0) {
    std::error_code none;
    const std::string parent = std::filesystem::temp_directory_path(none).string();
    path = TemporaryName(JoinPath(none ? "/tmp" : parent, "distill-dry-run"));
    made = MakeFolder(path);
  }
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), made));
  DISTILL_ASSIGN_OR_RETURN(path, BroadcastBytes(run.communicator(), path));
  return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(std::move(path), run.rank() == 0));
}

TemporaryFolder::~TemporaryFolder() {
  if (!removes_) return;
  if (const absl::Status removed = RemoveFolder(path_); !removed.ok()) {
    LogWarning(absl::StrCat("the dry run's folder is left: ", removed.message()));
  }
}

TrainerOptions OneStepInto(const std::string& folder, TrainerOptions options) {
  options.output_dir = folder;
  options.overwrite_output_dir = false;
  options.resume_from_checkpoint = "";
  options.max_steps = 1;
  options.logging_steps = 1;
  options.report_to = {ReportTo::kJsonl};
  options.save_strategy = SaveStrategy::kNo;
  options.final_save_retry = absl::ZeroDuration();
  // The metric's name is still looked for; no checkpoint of the best model is kept.
  if (TracksBest(options.best_model) && options.best_model.metric_for_best_model.empty()) {
    options.best_model.metric_for_best_model = "loss";
  }
  options.best_model.load_best_model_at_end = false;
  return options;
}

absl::Status CheckForDryRun(const TrainerOptions& asked) {
  return asked.output_dir.empty() ? absl::OkStatus() : CheckOutputFolder(asked);
}

absl::StatusOr<std::string> DescribeDryRun(const RunContext& run, const DryRunReport& report,
                                           const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> losses, LoggedLosses(folder));
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> written, ListEntries(folder));
  std::erase_if(written, [](const std::string& name) { return absl::StartsWith(name, "."); });  // the lock
  const std::vector<std::string> changes = Changes(report);
  std::string text = absl::StrCat("dry run of ", report.program, ": this job runs\n");
  absl::StrAppendFormat(
      &text, "  done      %s, on %d %s and %s, in %.1f s\n",
      losses.empty() ? "nothing was trained" : absl::StrCat("one step: ", absl::StrJoin(losses, ", ")),
      run.world_size(), run.world_size() == 1 ? "rank" : "ranks", run.device().str(), absl::ToDoubleSeconds(run.age()));
  if (!changes.empty()) absl::StrAppend(&text, "  changed   ", absl::StrJoin(changes, ", "), "\n");
  absl::StrAppend(
      &text, "  written   nothing in ", report.output_dir.empty() ? "output_dir" : report.output_dir,
      written.empty() ? "" : "; in a temporary folder, which is removed now: ", absl::StrJoin(written, ", "), "\n");
  return text;
}

}  // namespace distill
