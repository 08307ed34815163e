#include "libdistill/store/staged_folder.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/in_parallel.h"
#include "libdistill/store/store.h"

namespace distill {

class StagedFolder::Files : public StagedFiles, public std::enable_shared_from_this<StagedFolder::Files> {
 public:
  Files(std::string folder, std::string target, FollowFile follow)
      : folder_(std::move(folder)), target_(std::move(target)), follow_(std::move(follow)) {}

  absl::StatusOr<std::unique_ptr<FileWriter>> Create(const std::string& path) override;
  absl::Status Commit(const std::vector<std::string>& last);
  std::vector<std::string> Names() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, file] : complete_) names.push_back(name);
    return names;
  }

 private:
  class Writer;

  const std::string folder_, target_;
  const FollowFile follow_;
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::unique_ptr<FileWriter>>> complete_;  // by name, as they were completed
};

// Hands the file over where others give it its name.
class StagedFolder::Files::Writer : public FileWriter {
 public:
  Writer(std::shared_ptr<Files> files, std::string name, std::unique_ptr<FileWriter> file,
         std::shared_ptr<FileFollower> follower)
      : files_(std::move(files)), name_(std::move(name)), file_(std::move(file)), follower_(std::move(follower)) {}

  absl::Status Append(absl::string_view bytes) override {
    DISTILL_RETURN_IF_ERROR(AsDiskError(file_->Append(bytes)));
    if (follower_ != nullptr) follower_->Add(bytes);
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    DISTILL_RETURN_IF_ERROR(AsDiskError(file_->Prepare()));
    const std::lock_guard lock(files_->mutex_);
    std::erase_if(files_->complete_, [this](const auto& file) { return file.first == name_; });
    files_->complete_.emplace_back(name_, std::move(file_));
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<Files> files_;
  const std::string name_;
  std::unique_ptr<FileWriter> file_;
  const std::shared_ptr<FileFollower> follower_;
};

absl::StatusOr<std::unique_ptr<FileWriter>> StagedFolder::Files::Create(const std::string& path) {
  std::string name = path.substr(folder_.size() + 1);
  if (absl::StrContains(name, '/')) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a model or checkpoint in S3 holds files only, no folders"));
  }
  const std::string place = JoinPath(target_, name);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(place));
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<FileWriter> file, store->Create(place));
  return std::make_unique<Writer>(shared_from_this(), name, std::move(file),
                                  follow_ == nullptr ? nullptr : follow_(name));
}

absl::Status StagedFolder::Files::Commit(const std::vector<std::string>& last) {
  const std::lock_guard lock(mutex_);
  const auto rank = [&](const auto& file) { return std::find(last.begin(), last.end(), file.first) - last.begin(); };
  const auto is_last = [&](const auto& file) { return rank(file) < std::ssize(last); };
  const auto begin =
      std::stable_partition(complete_.begin(), complete_.end(), [&](auto& file) { return !is_last(file); });
  std::sort(begin, complete_.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  constexpr size_t kMostAtATime = 8;
  const auto commit = [&](size_t i) { return AsDiskError(complete_[i].second->Commit()); };
  const auto before = static_cast<size_t>(begin - complete_.begin());
  DISTILL_RETURN_IF_ERROR(InParallel(before, kMostAtATime, commit));
  for (size_t i = before; i < complete_.size(); ++i) DISTILL_RETURN_IF_ERROR(commit(i));
  complete_.clear();
  return absl::OkStatus();
}

namespace {

// Of the process, as the stores are.
struct StagedFolders {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<StagedFiles>> by_folder;
};

StagedFolders& Staged() {
  static auto* const folders = new StagedFolders;
  return *folders;
}

}  // namespace

StagedFolder::StagedFolder(const std::string& folder, const std::string& target, FollowFile follow)
    : folder_(folder), files_(std::make_shared<Files>(folder, target, std::move(follow))) {
  const std::lock_guard lock(Staged().mutex);
  Staged().by_folder[folder_] = files_;
}

StagedFolder::~StagedFolder() { Close(); }

void StagedFolder::Close() {
  const std::lock_guard lock(Staged().mutex);
  const auto found = Staged().by_folder.find(folder_);
  if (found != Staged().by_folder.end() && found->second == files_) Staged().by_folder.erase(found);
}

absl::Status StagedFolder::Commit(const std::vector<std::string>& last) {
  Close();
  return files_->Commit(last);
}

absl::Status AsDiskError(const absl::Status& error) {
  if (!absl::IsUnavailable(error) && !absl::IsDeadlineExceeded(error) && !absl::IsAborted(error)) return error;
  return absl::InternalError(error.message());
}

std::vector<std::string> StagedFolder::Names() const { return files_->Names(); }

std::shared_ptr<StagedFiles> StagedFilesOf(const std::string& path) {
  if (!IsRemote(path)) return nullptr;
  const std::lock_guard lock(Staged().mutex);
  for (const auto& [folder, files] : Staged().by_folder) {
    if (absl::StartsWith(path, absl::StrCat(folder, "/"))) return files;
  }
  return nullptr;
}

}  // namespace distill
