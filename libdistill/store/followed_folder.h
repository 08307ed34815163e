// Lets a folder's owner see the bytes of the files that are written there, as they pass by: checksums need no second
// reading.
//
//   FollowedFolder followed(folder, [&](const std::string& name) -> std::shared_ptr<FileFollower> { ... });
//   DISTILL_RETURN_IF_ERROR(model->Save(folder));   // by the functions of store/, which know nothing of it
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace distill {

// Sees one file as it is written.
class FileFollower {
 public:
  virtual ~FileFollower() = default;
  // Its bytes, in their order.
  virtual void Add(absl::string_view bytes) = 0;
  // All is written. A local file's ReadableFile::version is `version` until something else writes it again. Not called
  // for a staged file, whose version the store gives later, nor where the version cannot be known.
  virtual void End(const std::string& /*version*/) {}
};

// Of the file of that name, which begins; one that is written again begins again. On the thread that writes the file;
// null: nobody follows it.
using FollowFile = std::function<std::shared_ptr<FileFollower>(const std::string& name)>;

// Of a local folder, by one spelling of its path; a staged folder (staged_folder.h) has this by itself.
class FollowedFolder {
 public:
  // Until this is gone, files that CreateFile, WriteWholeFile and WriteSafetensors write in the folder itself, in this
  // process, are followed. What else writes there is not seen. `follow` may itself write files; it must outlive the
  // writing of files that begin before this is gone.
  FollowedFolder(const std::string& folder, FollowFile follow);
  ~FollowedFolder();
  FollowedFolder(const FollowedFolder&) = delete;
  FollowedFolder& operator=(const FollowedFolder&) = delete;

 private:
  const std::string folder_;
};

// For what writes a local file: who follows it from its first byte on, or null.
std::shared_ptr<FileFollower> FollowerOf(const std::string& path);
// For what has written all of it, before it closes the descriptor; `follower` may be null. Gives the file a
// modification time of nanoseconds: the kernel's own clock stands still for milliseconds, and hides who writes it again
// in them.
void EndFollowed(FileFollower* follower, int fd);

}  // namespace distill
