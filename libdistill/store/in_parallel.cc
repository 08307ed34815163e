#include "libdistill/store/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <system_error>
#include <vector>

namespace distill {

absl::Status InParallel(size_t count, size_t most, absl::FunctionRef<absl::Status(size_t)> act) {
  std::atomic<size_t> next = 0;
  const auto work = [&]() -> absl::Status {
    for (size_t i = next++; i < count; i = next++) {
      const absl::Status status = act(i);
      if (status.ok()) continue;
      next = count;
      return status;
    }
    return absl::OkStatus();
  };
  std::vector<std::future<absl::Status>> others;
  try {
    while (others.size() + 1 < std::min(count, most)) others.push_back(std::async(std::launch::async, work));
  } catch (const std::system_error&) {  // no thread is to be had
  }
  absl::Status status = work();
  for (std::future<absl::Status>& other : others) status.Update(other.get());
  return status;
}

}  // namespace distill
