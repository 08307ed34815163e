// One thread that runs the model, for many that ask it: LibTorch would start its own team of threads for each of them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "examples/squad/answer.h"

namespace distill {

class AnswerQueue {
 public:
  using Ask = std::function<absl::StatusOr<SpanAnswer>(const std::string& question, const std::string& context,
                                                       absl::Time deadline)>;

  // `ask` is called on this queue's own thread alone.
  explicit AnswerQueue(Ask ask);
  ~AnswerQueue();  // when nobody waits any more
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  // Blocks until it is answered. Any thread. DeadlineExceeded: it was not by then, and is not any more.
  absl::StatusOr<SpanAnswer> Answer(std::string question, std::string context, absl::Time deadline);

 private:
  struct Question;
  void Work();

  const Ask ask_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Question>> waiting_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace distill
