#include "examples/squad/answer_queue.h"

#include <future>
#include <utility>

#include "absl/time/clock.h"

namespace distill {

struct AnswerQueue::Question {
  std::string question, context;
  absl::Time deadline;
  std::promise<absl::StatusOr<SpanAnswer>> answer;
};

AnswerQueue::AnswerQueue(Ask ask) : ask_(std::move(ask)), thread_([this] { Work(); }) {}

AnswerQueue::~AnswerQueue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

absl::StatusOr<SpanAnswer> AnswerQueue::Answer(std::string question, std::string context, absl::Time deadline) {
  const auto asked = std::make_shared<Question>();
  asked->question = std::move(question);
  asked->context = std::move(context);
  asked->deadline = deadline;
  std::future<absl::StatusOr<SpanAnswer>> answer = asked->answer.get_future();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(asked);
  }
  changed_.notify_all();
  if (answer.wait_until(absl::ToChronoTime(deadline)) == std::future_status::ready) return answer.get();
  return absl::DeadlineExceededError("the model is busy: try again later");
}

void AnswerQueue::Work() {
  for (;;) {
    std::shared_ptr<Question> next;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    if (absl::Now() >= next->deadline) continue;  // nobody waits for it
    next->answer.set_value(ask_(next->question, next->context, next->deadline));
  }
}

}  // namespace distill
