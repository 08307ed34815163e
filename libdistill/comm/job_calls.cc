#include "libdistill/comm/job_calls.h"

namespace distill {

void JobCalls::End(const absl::Status& error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_.ok()) error_ = error;
  }
  ended_.store(true, std::memory_order_release);
}

absl::Status JobCalls::Check(absl::Status news) const {
  if (!news.ok() || !ended_.load(std::memory_order_acquire)) return news;
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

}  // namespace distill
