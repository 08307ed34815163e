// Who reads a published model is transformers, vLLM or another program that knows nothing of manifests: it looks in the
// folder for config.json, for an index of shards, and for files of fixed names. The folder also holds checkpoints, the
// lock of the run, and what people have put there. So it cannot be exchanged as a whole, and no name of a file tells
// one save from the next: files are renamed one by one, and a crash in the middle must not leave shards of two saves
// that look like one model. In this order:
//
//   1. .model.tmp.RANDOM gets the files, each synced, and .files, the list of them
//   2. .model.new   is its name from now on: the save stands, and will be completed whatever happens
//   3. config.json and the other files by which a model is found go from the folder (in a save without any of them: all
//      files that it has, too); then weights that are not replaced
//   4. the files come into their places, those by which the model is found last
//   5. .model.new   goes
//
// A crash before 2 leaves the model that was there. One after it leaves a folder in which no model is found (or, once
// 4 is done, the new one), until the next run, save or checkpoint there completes 3 to 5 from the list. Each step is
// synced before the next one begins, so that a power cut leaves nothing else.
//
// Who writes a save or completes it holds a lock on its .files. So of two processes one completes it, and the other
// waits until it is done; and a draft that nobody holds is what a crash left.
#include "libdistill/checkpoint/local_publish.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/checkpoint/remove_or_warn.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_lock.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/store/weight_files.h"

namespace distill {
namespace {

constexpr char kDraft[] = ".model.tmp", kList[] = ".files";

// A save's folder, draft or standing, that no other process touches meanwhile.
absl::StatusOr<std::unique_ptr<FileLock>> LockSave(const std::string& save) {
  return FileLock::Take(JoinPath(save, kList), [&] {
    LogInfo(absl::StrCat("waiting for another process, which completes the save in ", save));
  });
}

// What crashes left. A draft that its lock does not protect may go: who writes saves here has the folder's own lock.
absl::Status RemoveDrafts(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(folder));
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, kDraft)) continue;
    const std::string draft = JoinPath(folder, name);
    const absl::StatusOr<std::unique_ptr<FileLock>> lock = FileLock::TryTake(JoinPath(draft, kList));
    if (!lock.ok() || *lock != nullptr) RemoveOrWarn(draft);
  }
  return absl::OkStatus();
}

// The list is one of lines, and only a file takes another's place.
absl::StatusOr<std::vector<std::string>> NamesOf(const std::string& draft) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> names, ListEntries(draft));
  std::erase(names, kList);
  for (const std::string& name : names) {
    const std::string path = JoinPath(draft, name);
    if (FolderExists(path)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a model is saved as files only, without folders; write ",
                                                     "the file into the model's folder itself"));
    }
    if (absl::StrContains(name, '\n')) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": a model's file cannot have a name with a line's end; give it another one"));
    }
  }
  return names;
}

// Steps 1 and 2. `draft` holds the files.
absl::Status LetStand(const std::string& draft, const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesOf(draft));
  const std::string list = JoinPath(draft, kList);
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(list, absl::StrJoin(names, "\n")));
  for (const std::string& name : names) DISTILL_RETURN_IF_ERROR(Sync(JoinPath(draft, name)));
  DISTILL_RETURN_IF_ERROR(Sync(list));
  DISTILL_RETURN_IF_ERROR(Sync(draft));
  DISTILL_RETURN_IF_ERROR(Rename(draft, JoinPath(folder, kStandingSave)));
  return Sync(folder);
}

// Of `names`, those that have not come into their places yet.
std::vector<std::string> Waiting(const std::string& folder, std::vector<std::string> names) {
  const std::string standing = JoinPath(folder, kStandingSave);
  std::erase_if(names, [&](const std::string& name) { return !EntryExists(JoinPath(standing, name)); });
  return names;
}

// Step 3. A single file takes another's place at once. `names`: of the whole save. Where all of it is in its place,
// what lies there is this save's, or a person's who came later.
absl::Status HideOld(const std::string& folder, const std::vector<std::string>& names) {
  if (Waiting(folder, names).empty()) return absl::OkStatus();
  if (names.size() > 1) {
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
    for (const std::string& name : Waiting(folder, NamesToHide(names))) {
      DISTILL_RETURN_IF_ERROR(store->Remove(JoinPath(folder, name)));
    }
    DISTILL_RETURN_IF_ERROR(Sync(folder));
  }
  DISTILL_RETURN_IF_ERROR(RemoveWeightsOfOthers(folder, names));
  return Sync(folder);
}

// A part of step 4.
absl::Status Move(const std::string& folder, const std::vector<std::string>& names) {
  for (const std::string& name : Waiting(folder, names)) {
    DISTILL_RETURN_IF_ERROR(Rename(JoinPath(JoinPath(folder, kStandingSave), name), JoinPath(folder, name)));
  }
  return Sync(folder);
}

// Steps 3 to 5, by who holds its lock; again after a crash in any of them.
absl::Status Complete(const std::string& folder) {
  const std::string standing = JoinPath(folder, kStandingSave);
  DISTILL_ASSIGN_OR_RETURN(const std::string list, ReadFile(JoinPath(standing, kList)));
  const std::vector<std::string> names = absl::StrSplit(list, '\n', absl::SkipEmpty());
  DISTILL_RETURN_IF_ERROR(HideOld(folder, names));
  const std::vector<std::string>& entries = ModelEntries();
  const auto is_entry = [&](const auto& name) {
    return std::find(entries.begin(), entries.end(), name) != entries.end();
  };
  std::vector<std::string> others = names;
  std::erase_if(others, is_entry);
  DISTILL_RETURN_IF_ERROR(Move(folder, others));
  for (const std::string& entry : entries) {
    if (std::find(names.begin(), names.end(), entry) != names.end()) DISTILL_RETURN_IF_ERROR(Move(folder, {entry}));
  }
  // Half removed it would be no save. Its new name is its own: another process may write a draft.
  const std::string done = TemporaryName(JoinPath(folder, kDraft));
  DISTILL_RETURN_IF_ERROR(Rename(standing, done));
  RemoveOrWarn(done);
  return Sync(folder);
}

// Null: there is no such save any more.
absl::StatusOr<std::unique_ptr<FileLock>> LockStanding(const std::string& folder) {
  const std::string standing = JoinPath(folder, kStandingSave), list = JoinPath(standing, kList);
  while (EntryExists(standing)) {
    if (!EntryExists(list) && EntryExists(standing)) return absl::NotFoundError(absl::StrCat(list, " is missing"));
    absl::StatusOr<std::unique_ptr<FileLock>> lock = LockSave(standing);
    if (absl::IsNotFound(lock.status())) continue;  // completed just now
    if (!lock.ok() || (*lock)->IsAt(list)) return lock;
  }
  return nullptr;
}

}  // namespace

absl::Status FinishPublishing(const std::string& folder) {
  const std::string standing = JoinPath(folder, kStandingSave);
  if (IsRemote(folder) || !EntryExists(standing)) return absl::OkStatus();
  const auto finish = [&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> lock, LockStanding(folder));
    if (lock == nullptr) return absl::OkStatus();
    LogInfo(absl::StrCat("completing the save in ", standing, ", which was interrupted"));
    return Complete(folder);
  };
  return Annotate(finish(), absl::StrCat("completing the save in ", standing,
                                         " (which was interrupted; without that folder it is given up)"));
}

absl::Status PublishLocally(const std::string& folder,
                            const std::function<absl::Status(const std::string& folder)>& write) {
  DISTILL_RETURN_IF_ERROR(FinishPublishing(folder));
  DISTILL_RETURN_IF_ERROR(MakeFolder(folder));
  DISTILL_RETURN_IF_ERROR(RemoveDrafts(folder));
  const std::string draft = TemporaryName(JoinPath(folder, kDraft));
  DISTILL_RETURN_IF_ERROR(MakeFolder(draft));
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> lock, LockSave(draft));  // of the standing save, too
  absl::Status published = write(draft);
  if (published.ok()) published = LetStand(draft, folder);
  if (published.ok()) return Complete(folder);
  RemoveOrWarn(draft);
  return published;
}

}  // namespace distill
