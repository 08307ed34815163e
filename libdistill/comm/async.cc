#include "libdistill/comm/async.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/world/backoff.h"

namespace distill {

struct AsyncCall::State {
  void End(absl::Status result) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      status = std::move(result);
      ended = true;
    }
    changed.notify_all();
  }
  std::function<absl::Status(Communicator&)> call;  // the thread's alone, once handed over
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  absl::Status status;
};

absl::Status AsyncCall::Wait() const {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->ended; });
  return state_->status;
}

bool AsyncCall::done() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->ended;
}

absl::StatusOr<std::unique_ptr<AsyncCalls>> AsyncCalls::Start(Communicator* communicator) {
  std::unique_ptr<AsyncCalls> calls(new AsyncCalls(communicator));
  DISTILL_ASSIGN_OR_RETURN(calls->thread_,
                           StartThread(absl::StrCat("the calls of ", communicator->Describe(communicator->rank())),
                                       [calls = calls.get()] { calls->Serve(); }));
  return calls;
}

AsyncCalls::~AsyncCalls() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  // The thread takes no more of them; whoever waits for one need not wait for the call that runs.
  for (const std::shared_ptr<AsyncCall::State>& state : waiting_) {
    state->End(absl::CancelledError("the communication thread was stopped before this call began"));
  }
  if (thread_.joinable()) thread_.join();
}

AsyncCall AsyncCalls::Run(std::function<absl::Status(Communicator&)> call) {
  auto state = std::make_shared<AsyncCall::State>();
  state->call = std::move(call);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(state);
  }
  changed_.notify_all();
  return AsyncCall(std::move(state));
}

void AsyncCalls::Serve() {
  Backoff::WaitPolitely();  // what the calls run beside may need this core
  pthread_setname_np(pthread_self(), "distill-comm");
  for (;;) {
    std::shared_ptr<AsyncCall::State> state;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      state = std::move(waiting_.front());
      waiting_.pop_front();
    }
    absl::Status status = state->call(communicator_);
    state->call = nullptr;  // what it holds goes before the waiter continues
    state->End(std::move(status));
  }
}

}  // namespace distill
