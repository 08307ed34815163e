// Lets a folder's owner see the bytes of the files that are written there, as they pass by: checksums need no second
// reading.
//
//   FollowedFolder followed(folder, [&](const std::string& name) -> ByteFollower { ... });
//   DISTILL_RETURN_IF_ERROR(model->Save(folder));   // by the functions of store/, which know nothing of it
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace distill {

// Sees the bytes of one file, in their order.
using ByteFollower = std::function<void(absl::string_view bytes)>;
// Of the file of that name, which begins; one that is written again begins again.
using FollowFile = std::function<ByteFollower(const std::string& name)>;

// Of a local folder, by one spelling of its path; a staged folder (staged_folder.h) has this by itself.
class FollowedFolder {
 public:
  // Until this is gone, files that CreateFile, WriteWholeFile and WriteSafetensors write in the folder itself, in this
  // process, are followed. What else writes there is not seen.
  FollowedFolder(const std::string& folder, FollowFile follow);
  ~FollowedFolder();
  FollowedFolder(const FollowedFolder&) = delete;
  FollowedFolder& operator=(const FollowedFolder&) = delete;

 private:
  const std::string folder_;
};

// For what writes a local file: who follows it from its first byte on, or null.
ByteFollower FollowerOf(const std::string& path);

}  // namespace distill
