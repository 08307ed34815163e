// Objects of S3 get their names when they are written, and keep them. So a checkpoint is what has a manifest:
//
//   to come   .draft; the files; manifest.pb; .draft goes
//   to go     .draft; manifest.pb goes; the files go; .draft goes
//
// A folder with .draft and without a manifest is what a crash left of either, and no checkpoint. One that is saved
// again has its files in save-N/ beside the older ones, where its manifest, which takes the older one's place at once,
// says so.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/checkpoint_place.h"
#include "libdistill/checkpoint/checksums.h"
#include "libdistill/checkpoint/manifest.h"
#include "libdistill/checkpoint/remove_or_warn.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/in_parallel.h"
#include "libdistill/store/staged_folder.h"
#include "libdistill/store/store.h"
#include "libdistill/store/weight_files.h"

namespace distill {
namespace {

constexpr char kDraftMark[] = ".draft";
constexpr char kSavePrefix[] = "save-";

using Names = std::set<std::string>;  // of files, in a checkpoint's folder

absl::Status MarkAsDraft(const std::string& folder) {
  return WriteWholeFile(
      JoinPath(folder, kDraftMark),
      "Without a manifest.pb beside this file the folder is no checkpoint, and goes with a next save.\n");
}

absl::Status RemoveFiles(const std::string& folder, const Names& names) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  const std::vector<std::string> list(names.begin(), names.end());
  constexpr size_t kMostAtATime = 8;
  return InParallel(list.size(), kMostAtATime, [&](size_t i) { return store->Remove(JoinPath(folder, list[i])); });
}

absl::StatusOr<Names> NamesIn(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, store->ListAll(folder, ""));
  return Names(names.begin(), names.end());
}

absl::Status RemoveCheckpoint(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(Names names, NamesIn(folder));
  if (names.erase(kManifestFile) > 0) {
    DISTILL_RETURN_IF_ERROR(MarkAsDraft(folder));
    names.erase(kDraftMark);
    DISTILL_RETURN_IF_ERROR(RemoveFiles(folder, {kManifestFile}));
  }
  const bool is_marked = names.erase(kDraftMark) > 0;
  DISTILL_RETURN_IF_ERROR(RemoveFiles(folder, names));
  return is_marked || !names.empty() ? RemoveFiles(folder, {kDraftMark}) : absl::OkStatus();
}

// Of its files in the folder: those that its manifest does not list.
absl::StatusOr<Names> NotListed(const std::string& folder, Names names) {
  const std::string path = JoinPath(folder, kManifestFile);
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  DISTILL_ASSIGN_OR_RETURN(const CheckpointManifest manifest, OpenManifest(bytes, path));
  names.erase(kManifestFile);
  for (const FileEntry& file : manifest.files) names.erase(JoinPath(manifest.folder, file.name));
  return names;
}

void WarnWhereNot(const absl::Status& removed, const std::string& what) {
  if (removed.ok()) return;
  LogWarning(absl::StrCat(what, " stays, and is not needed: ", removed.message(), "; the next save tries again"));
}

class RemoteDraft : public DraftFolder {
 public:
  // `inner`: "" in a folder that has the mark of a draft.
  RemoteDraft(const std::string& checkpoint, const std::string& inner)
      : checkpoint_(checkpoint),
        inner_(inner),
        staged_(JoinPath(checkpoint, inner + kDraftSuffix), inner.empty() ? checkpoint : JoinPath(checkpoint, inner),
                sums_.Follower()) {}

  const std::string& folder() const override { return staged_.folder(); }
  std::string inner_folder() const override { return inner_; }

  absl::StatusOr<std::vector<FileEntry>> Seal() override {
    DISTILL_RETURN_IF_ERROR(staged_.Commit());
    return sums_.All();
  }

  absl::Status Place(const std::string& manifest) override {
    DISTILL_RETURN_IF_ERROR(AsDiskError(WriteWholeFile(JoinPath(checkpoint_, kManifestFile), manifest)));
    WarnWhereNot(RemoveWhatWasBefore(), absl::StrCat("a part of ", checkpoint_));
    return absl::OkStatus();
  }

  void Discard() override {
    // Its manifest may stand, where the answer to it was lost.
    const absl::Status removed = inner_.empty() ? RemoveCheckpoint(checkpoint_) : RemoveWhatWasBefore();
    WarnWhereNot(removed, absl::StrCat("the draft of ", checkpoint_));
  }

 private:
  absl::Status RemoveWhatWasBefore() {
    DISTILL_ASSIGN_OR_RETURN(const Names names, NamesIn(checkpoint_));
    DISTILL_ASSIGN_OR_RETURN(const Names old, NotListed(checkpoint_, names));
    return RemoveFiles(checkpoint_, old);
  }

  const std::string checkpoint_, inner_;
  WrittenSums sums_;
  StagedFolder staged_;
};

class RemotePlace : public CheckpointPlace {
 public:
  explicit RemotePlace(const std::string& output_dir) : output_dir_(output_dir) {}

  absl::StatusOr<std::vector<FoundCheckpoint>> List() override {
    DISTILL_ASSIGN_OR_RETURN(const auto folders, Folders());
    std::vector<FoundCheckpoint> found;
    for (const auto& [name, files] : folders) {
      if (!IsDraft(files)) found.push_back({*StepOfName(name), JoinPath(output_dir_, name)});
    }
    return found;
  }

  absl::StatusOr<std::shared_ptr<DraftFolder>> Begin(int64_t step) override {
    DISTILL_RETURN_IF_ERROR(AsDiskError(ClearLeftovers()));
    const std::string folder = CheckpointFolder(output_dir_, step);
    absl::StatusOr<Names> names = NamesIn(folder);
    if (!names.ok()) return AsDiskError(names.status());
    if (names->count(kManifestFile) > 0) return std::make_shared<RemoteDraft>(folder, FreeInnerFolder(*names));
    DISTILL_RETURN_IF_ERROR(AsDiskError(MarkAsDraft(folder)));
    return std::make_shared<RemoteDraft>(folder, "");
  }

  absl::Status Remove(const std::string& folder) override { return RemoveCheckpoint(folder); }
  absl::Status HideAndRemove(std::string& folder) override { return RemoveCheckpoint(folder); }

  absl::Status Publish(const std::function<absl::Status(const std::string& folder)>& write) override {
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(output_dir_));
    (void)store->RemoveUnfinished(JoinPath(output_dir_, "model.safetensors"));  // as above
    StagedFolder staged(JoinPath(output_dir_, ".model.tmp"), output_dir_);
    DISTILL_RETURN_IF_ERROR(write(staged.folder()));
    const std::vector<std::string> names = staged.Names();
    if (names.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("nothing was written for ", output_dir_,
                                                     ": what saves a model under s3:// uses WriteWholeFile, ",
                                                     "CreateFile or WriteSafetensors, and no files of its own"));
    }
    WarnWhereMixed(HideModel(names));
    WarnWhereMixed(RemoveWeightsOfOthers(output_dir_, names));
    return staged.Commit(ModelEntries());  // who waits for a model waits for config.json, the last
  }

 private:
  // The files come one by one: a crash in the middle must not leave shards of two saves that look like one model, and
  // leaves none. So does a Commit that fails: the older model is lost then, and a next try brings the new one.
  absl::Status HideModel(const std::vector<std::string>& written) {
    if (written.size() < 2) return absl::OkStatus();  // one comes at once
    Names old;
    for (const std::string& name : NamesToHide(written)) {
      if (FileExists(JoinPath(output_dir_, name))) old.insert(name);
    }
    return RemoveFiles(output_dir_, old);
  }

  // Who may write there and not remove still gets the new model, at last.
  void WarnWhereMixed(const absl::Status& removed) {
    if (removed.ok()) return;
    LogWarning(absl::StrCat(removed.message(), ": ", output_dir_,
                            " may hold files of the new model and of an older one",
                            " (see what the folder's owner lets you remove)"));
  }

  static bool IsDraft(const Names& names) { return names.count(kDraftMark) > 0 && names.count(kManifestFile) == 0; }

  static std::string FreeInnerFolder(const Names& names) {
    int64_t last = 0;
    for (const std::string& name : names) {
      absl::string_view number = name;
      int64_t value = 0;
      if (!absl::ConsumePrefix(&number, kSavePrefix)) continue;
      if (absl::SimpleAtoi(number.substr(0, number.find('/')), &value)) last = std::max(last, value);
    }
    return absl::StrCat(kSavePrefix, last + 1);
  }

  // What is called checkpoint-N, and the files in it; an object of that name has none.
  absl::StatusOr<std::map<std::string, Names>> Folders() {
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(output_dir_));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> paths, store->ListAll(output_dir_, kCheckpointPrefix));
    std::map<std::string, Names> folders;
    for (const std::string& path : paths) {
      const size_t slash = std::min(path.find('/'), path.size());
      const std::string name = path.substr(0, slash);
      if (!StepOfName(name).has_value()) continue;
      Names& files = folders[name];
      if (slash + 1 < path.size()) files.insert(path.substr(slash + 1));
    }
    return folders;
  }

  absl::Status ClearLeftovers() {
    DISTILL_ASSIGN_OR_RETURN(const auto folders, Folders());
    for (const auto& [name, files] : folders) {
      const std::string folder = JoinPath(output_dir_, name);
      if (IsDraft(files)) {
        RemoveOrWarn(folder);
      } else if (files.count(kDraftMark) > 0 || HasInnerFolder(files)) {
        WarnWhereNot(RemoveNotListed(folder, files), absl::StrCat("a part of ", folder));
      }
    }
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(output_dir_));
    // Not everybody may see them; a lifecycle rule of the bucket removes them, too.
    (void)store->RemoveUnfinished(JoinPath(output_dir_, kCheckpointPrefix));
    return absl::OkStatus();
  }

  static bool HasInnerFolder(const Names& files) {
    return std::any_of(files.begin(), files.end(),
                       [](const auto& file) { return absl::StartsWith(file, kSavePrefix); });
  }

  static absl::Status RemoveNotListed(const std::string& folder, const Names& files) {
    if (files.count(kManifestFile) == 0) return absl::OkStatus();  // another program's
    DISTILL_ASSIGN_OR_RETURN(const Names old, NotListed(folder, files));
    return RemoveFiles(folder, old);
  }

  const std::string output_dir_;
};

}  // namespace

std::unique_ptr<CheckpointPlace> MakeRemotePlace(const std::string& output_dir) {
  return std::make_unique<RemotePlace>(output_dir);
}

std::unique_ptr<CheckpointPlace> PlaceOf(const std::string& output_dir) {
  return IsRemote(output_dir) ? MakeRemotePlace(output_dir) : MakeLocalPlace(output_dir);
}

}  // namespace distill
