#include "examples/llm/publish.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "examples/llm/student_card.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/busy_phase.h"
#include "libdistill/core/version.h"
#include "libdistill/nn/model_content.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_access.h"
#include "libdistill/store/hub_publish.h"
#include "libdistill/store/store.h"
#include "libdistill/store/weight_files.h"

namespace distill {
namespace {

constexpr absl::Duration kLongest = absl::Hours(24);  // of a publication: what stalls is cut by the stores' own limit

HubRepository RepositoryOf(const PublishOptions& options) {
  return {.kind = HubKind::kModel, .name = options.hub_location, .revision = options.hub_revision};
}

// The hub takes its time for a commit, and its store for the end of many parts.
StoreOptions PatientOptions() {
  constexpr double kPatience = 120;
  StoreOptions options = CurrentStoreOptions();
  options.stall_seconds = std::max(options.stall_seconds, kPatience);
  return options;
}

bool IsModelFile(const std::string& name) {
  const std::vector<std::string>& tokenizer = TokenizerFiles();
  if (std::find(tokenizer.begin(), tokenizer.end(), name) != tokenizer.end()) return true;
  for (const char* other : {"config.json", kPageFile, "LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE",
                            "chat_template.json", "preprocessor_config.json"}) {
    if (name == other) return true;
  }
  // Of a checkpoint, and of what only training uses.
  if (name == "optimizer.safetensors" || name == kStateProjectionsFile) return false;
  for (const char* ending : {".safetensors", ".safetensors.index.json", ".bin.index.json", ".model"}) {
    if (absl::EndsWith(name, ending)) return true;
  }
  return absl::StartsWith(name, "pytorch_model") && absl::EndsWith(name, ".bin");
}

bool HoldsWeights(const std::string& name) {
  return absl::EndsWith(name, ".safetensors") || absl::EndsWith(name, ".bin");
}

absl::StatusOr<std::vector<std::string>> ModelFiles(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> names, ListFiles(folder, "", ""));
  std::erase_if(names, [](const std::string& name) { return !IsModelFile(name); });
  const bool has_config = std::find(names.begin(), names.end(), "config.json") != names.end();
  if (has_config && std::any_of(names.begin(), names.end(), HoldsWeights)) return names;
  return absl::NotFoundError(absl::StrCat(folder, " holds no model: there must be config.json and weights in it"));
}

// The page of the folder goes over one of ours, or none; one that a person wrote in the folder goes as it is.
absl::StatusOr<std::string> MayReplaceOnly(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::string page, ReadFile(JoinPath(folder, kPageFile)));
  return absl::StrContains(page, kCardMarker) ? kCardMarker : "";
}

absl::Status Publish(const PublishOptions& options, const std::string& folder, const std::vector<std::string>& names) {
  HubPublication publication{.repository = RepositoryOf(options),
                             .is_private = options.hub_private_repo,
                             .summary = "Publish the model",
                             .description = absl::StrCat("By ", VersionLine(), ".")};
  publication.is_outdated = IsReadAsWeights;
  for (const std::string& name : names) {
    DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const ReadableFile> file, OpenFile(JoinPath(folder, name)));
    std::string replaces_only;
    if (name == kPageFile) {
      DISTILL_ASSIGN_OR_RETURN(replaces_only, MayReplaceOnly(folder));
    }
    publication.files.push_back({name, std::move(file), std::move(replaces_only)});
  }
  DISTILL_ASSIGN_OR_RETURN(HubSettings settings, ReadHubSettings());
  HubClient hub(settings, PatientOptions(), CountersOfStores());
  const absl::Time began = absl::Now();
  DISTILL_ASSIGN_OR_RETURN(const PublishedCommit done, PublishToHub(hub, publication));
  publication.repository.name = done.repository;
  const std::string page = absl::StrCat(settings.endpoint, publication.repository.Page());
  for (const std::string& name : done.kept) {
    LogInfo(absl::StrCat(name, " of ", done.repository, " stays as it is: it was not made by libdistill"));
  }
  if (!done.removed.empty()) {
    LogInfo(absl::StrCat("removed from ", done.repository,
                         ", as weights of another model: ", absl::StrJoin(done.removed, ", ")));
  }
  if (!done.is_new) {
    LogInfo(absl::StrCat(page, " has all of it already, in commit ", done.commit));
    return absl::OkStatus();
  }
  LogInfo(absl::StrFormat("published in %s, commit %s; %.1f MB were sent as large files, in %.1f s", page, done.commit,
                          static_cast<double>(done.bytes_sent) * 1e-6, absl::ToDoubleSeconds(absl::Now() - began)));
  return absl::OkStatus();
}

std::string CommandToPublish(const PublishOptions& options, const std::string& folder) {
  return absl::StrCat("distill_llm --publish ", folder, " --hub_location ", options.hub_location,
                      options.hub_revision == "main" ? "" : absl::StrCat(" --hub_revision ", options.hub_revision),
                      options.hub_private_repo ? " --hub_private_repo true" : "");
}

// Whether a run writes such a file when it saves its model, and not only a person beside it.
bool IsSavedByRuns(const std::string& name) {
  const std::vector<std::string>& tokenizer = TokenizerFiles();
  return name == "config.json" || name == kPageFile || absl::StrContains(name, ".safetensors") ||
         std::find(tokenizer.begin(), tokenizer.end(), name) != tokenizer.end();
}

// What a person wrote there stays.
absl::Status RemovePublished(const std::string& folder, const std::vector<std::string>& names) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  for (const std::string& name : names) {
    if (!IsSavedByRuns(name)) continue;
    if (name == kPageFile) {
      DISTILL_ASSIGN_OR_RETURN(const std::string marker, MayReplaceOnly(folder));
      if (marker.empty()) continue;
    }
    DISTILL_RETURN_IF_ERROR(store->Remove(JoinPath(folder, name)));
  }
  return absl::OkStatus();
}

// After an error the model is where it was.
absl::Status PublishFinal(const PublishOptions& options, const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = ModelFiles(folder);
  if (!names.ok()) return Annotate(names.status(), "the student is not published");
  const absl::Status published = Publish(options, folder, *names);
  if (!published.ok()) {
    return absl::Status(published.code(), absl::StrCat("the student is trained, and in ", folder,
                                                       ", but it is not on the hub: ", published.message(),
                                                       "; to publish it: ", CommandToPublish(options, folder)));
  }
  if (KeepsInFolder(options)) return absl::OkStatus();
  if (const absl::Status removed = RemovePublished(folder, *names); !removed.ok()) {
    LogWarning(absl::StrCat("the student is on the hub, but also still in ", folder, ": ", removed.message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMayPublish(const LlmOptions& options) {
  if (!PublishesToHub(options.publish)) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const HubSettings settings, ReadHubSettings());
  HubClient hub(settings, CurrentStoreOptions(), CountersOfStores());
  return CheckMayPublish(hub, RepositoryOf(options.publish));
}

absl::Status PublishFolder(const PublishOptions& options, const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ModelFiles(folder));
  return Publish(options, folder, names);
}

absl::Status PublishStudent(RunContext& run, const LlmOptions& options, const ModelCard& card, bool was_trained) {
  const std::string& folder = options.trainer.output_dir;
  absl::Status mine;
  if (run.rank() == 0) {
    const BusyPhase phase(run.communicator(), "publishing the student", kLongest);
    // With the model on the hub alone, its page is there, too.
    const bool has_page = !KeepsInFolder(options.publish) || FileExists(JoinPath(folder, kPageFile));
    const absl::Status written = was_trained || !has_page ? WriteCard(folder, card) : absl::OkStatus();
    if (!written.ok()) {
      LogWarning(absl::StrCat("the model's page (README.md) could not be written: ", written.message()));
    }
    if (PublishesToHub(options.publish)) mine = PublishFinal(options.publish, folder);
  }
  return Agree(run.communicator(), mine);
}

}  // namespace distill
