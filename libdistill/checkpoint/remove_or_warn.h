// Folders that are not needed any more, and may resist: an immutable file, a file that is open on NFS.
#pragma once

#include <string>

namespace distill {

// Removes the folder, or says once (in this process) that it cannot, and why; the caller goes on and tries again later.
// A checkpoint's folder first gets a hidden name, so that a part of it is never taken for a checkpoint.
void RemoveOrWarn(const std::string& folder);

}  // namespace distill
