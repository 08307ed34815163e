// Files that a folder of a store behind a network gets together: what CreateFile makes in the staged folder waits, sent
// but not seen, and comes into its target with Commit. So writers that know a folder's name and no more write there,
// and nothing is kept on a local disk.
//
//   StagedFolder staged("s3://bucket/out/.model.tmp", "s3://bucket/out");
//   DISTILL_RETURN_IF_ERROR(model->Save(staged.folder()));
//   DISTILL_RETURN_IF_ERROR(staged.Commit({"config.json"}));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/followed_folder.h"

namespace distill {

class StagedFolder {
 public:
  // Until this is gone, files of `folder`, a name that nothing has or `target` itself, are staged in this process.
  // `follow` may be null.
  StagedFolder(const std::string& folder, const std::string& target, FollowFile follow = nullptr);
  // Without Commit nothing is left of them.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::string& folder() const { return folder_; }
  // Of the files that were completed in it and are not there yet.
  std::vector<std::string> Names() const;
  // Blocks until all files are there: those of `last` after the others, in this order, so that who waits for them finds
  // the rest. Files that are written from now on are not staged.
  [[nodiscard]] absl::Status Commit(const std::vector<std::string>& last = {});

 private:
  class Files;
  void Close();

  const std::string folder_;
  const std::shared_ptr<Files> files_;
};

// An error of a store or disk to who saves or checks a checkpoint: never Unavailable, which is a lost peer's where
// ranks work together, but Internal, as of a disk that fails.
absl::Status AsDiskError(const absl::Status& error);

// What `path` is staged in, if anything; for CreateFile.
class StagedFiles {
 public:
  virtual ~StagedFiles() = default;
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<FileWriter>> Create(const std::string& path) = 0;
};
std::shared_ptr<StagedFiles> StagedFilesOf(const std::string& path);

}  // namespace distill
