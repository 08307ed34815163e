#include "libdistill/comm/async.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/world/backoff.h"

namespace distill {

namespace {

class ThreadState : public AsyncCall::State {
 public:
  explicit ThreadState(std::function<absl::Status(Communicator&)> call) : call_(std::move(call)) {}
  absl::Status Wait() override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
    return status_;
  }
  bool done() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ended_;
  }
  void Run(Communicator& communicator) {
    absl::Status status = call_(communicator);
    call_ = nullptr;  // what it holds goes before the waiter continues
    End(std::move(status));
  }
  void End(absl::Status result) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      status_ = std::move(result);
      ended_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::function<absl::Status(Communicator&)> call_;  // the thread's alone, once handed over
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  absl::Status status_;
};

class ThreadCalls : public AsyncCalls {
 public:
  explicit ThreadCalls(Communicator* communicator) : communicator_(*communicator) {}
  ~ThreadCalls() override;
  absl::Status StartThread();
  AsyncCall Run(std::function<absl::Status(Communicator&)> call) override;

 private:
  void Serve();

  Communicator& communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<ThreadState>> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

absl::Status ThreadCalls::StartThread() {
  const std::string name = absl::StrCat("the calls of ", communicator_.Describe(communicator_.rank()));
  DISTILL_ASSIGN_OR_RETURN(thread_, distill::StartThread(name, [this] { Serve(); }));
  return absl::OkStatus();
}

ThreadCalls::~ThreadCalls() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  // The thread takes no more of them; whoever waits for one need not wait for the call that runs.
  for (const std::shared_ptr<ThreadState>& state : waiting_) {
    state->End(absl::CancelledError("the communication thread was stopped before this call began"));
  }
  if (thread_.joinable()) thread_.join();
}

AsyncCall ThreadCalls::Run(std::function<absl::Status(Communicator&)> call) {
  auto state = std::make_shared<ThreadState>(std::move(call));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(state);
  }
  changed_.notify_all();
  return AsyncCall(std::move(state));
}

void ThreadCalls::Serve() {
  Backoff::WaitPolitely();  // what the calls run beside may need this core
  pthread_setname_np(pthread_self(), "distill-comm");
  for (;;) {
    std::shared_ptr<ThreadState> state;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      state = std::move(waiting_.front());
      waiting_.pop_front();
    }
    state->Run(communicator_);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<AsyncCalls>> AsyncCalls::Start(Communicator* communicator) {
  auto calls = std::make_unique<ThreadCalls>(communicator);
  DISTILL_RETURN_IF_ERROR(calls->StartThread());
  return calls;
}

}  // namespace distill
