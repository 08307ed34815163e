// Large files into the hub's store, by the batch interface of Git LFS, transfers "basic" and "multipart". What was sent
// is in no revision until a commit names it (hub_publish.h).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/store/hub_client.h"
#include "libdistill/store/readable_file.h"

namespace distill {

struct LfsObject {
  std::string name;    // of the file in the repository, for messages
  std::string sha256;  // in lower case
  std::shared_ptr<const ReadableFile> file;
};

// Sends the object, read a part at a time, unless the store has it. Returns how many bytes were sent. Blocks.
// PermissionDenied: no right to write, or no space left in the plan of who owns the repository. DataLoss: the file has
// changed meanwhile. Other errors are those of HubClient::Send; `name` is in each.
[[nodiscard]] absl::StatusOr<int64_t> UploadLfsObject(HubClient& hub, const HubRepository& repository,
                                                      const LfsObject& object);

}  // namespace distill
