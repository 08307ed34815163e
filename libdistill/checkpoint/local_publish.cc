// Who reads a published model is transformers, vLLM or another program that knows nothing of manifests: it looks in the
// folder for config.json, for an index of shards, and for files of fixed names. The folder also holds checkpoints, the
// lock of the run, and what people have put there. So it cannot be exchanged as a whole, and no name of a file tells
// one save from the next: files are renamed one by one, and a crash in the middle must not leave shards of two saves
// that look like one model. In this order:
//
//   1. .model.tmp   gets the files, each synced, and .files, the list of them
//   2. .model.new   is its name from now on: the save stands, and will be completed whatever happens
//   3. config.json and the other files by which a model is found go from the folder; then weights that are not replaced
//   4. the files come into their places, those by which the model is found last
//   5. .model.new   goes
//
// A crash before 2 leaves the model that was there. One after it leaves a folder in which no model is found (or, once
// 4 is done, the new one), until the next run, save or checkpoint there completes 3 to 5 from the list. Each step is
// synced before the next one begins, so that a power cut leaves nothing else.
#include "libdistill/checkpoint/local_publish.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/checkpoint/remove_or_warn.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/store/weight_files.h"

namespace distill {
namespace {

constexpr char kDraft[] = ".model.tmp", kStanding[] = ".model.new", kList[] = ".files";

bool IsEntry(const std::string& name) {
  return std::find(ModelEntries().begin(), ModelEntries().end(), name) != ModelEntries().end();
}

// Steps 1 and 2. `draft` holds the files.
absl::Status LetStand(const std::string& draft, const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(draft));
  const std::string list = JoinPath(draft, kList);
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(list, absl::StrJoin(names, "\n")));
  for (const std::string& name : names) DISTILL_RETURN_IF_ERROR(Sync(JoinPath(draft, name)));
  DISTILL_RETURN_IF_ERROR(Sync(list));
  DISTILL_RETURN_IF_ERROR(Sync(draft));
  DISTILL_RETURN_IF_ERROR(Rename(draft, JoinPath(folder, kStanding)));
  return Sync(folder);
}

// Step 3. A single file takes another's place at once. `names`: of the whole save.
absl::Status HideOld(const std::string& folder, const std::vector<std::string>& names) {
  if (names.size() > 1) {
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
    // One that has come into its place already is of this save.
    const auto waits = [&](const std::string& name) {
      return EntryExists(JoinPath(JoinPath(folder, kStanding), name));
    };
    for (const std::string& name : names) {
      if (IsEntry(name) && waits(name)) DISTILL_RETURN_IF_ERROR(store->Remove(JoinPath(folder, name)));
    }
    DISTILL_RETURN_IF_ERROR(Sync(folder));
  }
  RemoveWeightsOfOthers(folder, names);
  return Sync(folder);
}

// A part of step 4; those that are not there have been moved.
absl::Status Move(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string from = JoinPath(JoinPath(folder, kStanding), name);
    if (EntryExists(from)) DISTILL_RETURN_IF_ERROR(Rename(from, JoinPath(folder, name)));
  }
  return Sync(folder);
}

// Steps 3 to 5; again after a crash in any of them.
absl::Status Complete(const std::string& folder) {
  const std::string standing = JoinPath(folder, kStanding), draft = JoinPath(folder, kDraft);
  DISTILL_ASSIGN_OR_RETURN(const std::string list, ReadFile(JoinPath(standing, kList)));
  std::vector<std::string> names = absl::StrSplit(list, '\n', absl::SkipEmpty());
  DISTILL_RETURN_IF_ERROR(HideOld(folder, names));
  const auto entries = std::stable_partition(names.begin(), names.end(), [](const auto& n) { return !IsEntry(n); });
  DISTILL_RETURN_IF_ERROR(Move(folder, {names.begin(), entries}));
  for (const std::string& entry : ModelEntries()) {
    if (std::find(entries, names.end(), entry) != names.end()) DISTILL_RETURN_IF_ERROR(Move(folder, {entry}));
  }
  DISTILL_RETURN_IF_ERROR(RemoveFolder(draft));
  DISTILL_RETURN_IF_ERROR(Rename(standing, draft));  // half removed it would be no save, nor a draft
  RemoveOrWarn(draft);
  return Sync(folder);
}

}  // namespace

absl::Status FinishPublishing(const std::string& folder) {
  const std::string standing = JoinPath(folder, kStanding);
  if (!EntryExists(standing)) return absl::OkStatus();
  LogInfo(absl::StrCat("completing the save in ", standing, ", which was interrupted"));
  return Annotate(Complete(folder), absl::StrCat("completing the save in ", standing,
                                                 " (which was interrupted; without that folder it is given up)"));
}

absl::Status PublishLocally(const std::string& folder,
                            const std::function<absl::Status(const std::string& folder)>& write) {
  DISTILL_RETURN_IF_ERROR(FinishPublishing(folder));
  const std::string draft = JoinPath(folder, kDraft);
  DISTILL_RETURN_IF_ERROR(RemoveFolder(draft));
  DISTILL_RETURN_IF_ERROR(MakeFolder(draft));
  absl::Status published = write(draft);
  if (published.ok()) published = LetStand(draft, folder);
  if (published.ok()) return Complete(folder);
  RemoveOrWarn(draft);
  return published;
}

}  // namespace distill
