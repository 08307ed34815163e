#include "libdistill/core/thread.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace distill {

absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread for ", purpose, ": ", error.what(), " (limits: ulimit -u, pids.max of the container)"));
  }
}

}  // namespace distill
