// Calls of a communicator beside other work: a thread runs them one after the other, in the order in which they were
// handed over.
//
//   DISTILL_ASSIGN_OR_RETURN(auto calls, AsyncCalls::Start(comm.get()));
//   AsyncCall sum = calls->Run([=](Communicator& c) { return c.AllReduce(g, g, n, DType::kFloat32, ReduceOp::kSum); });
//   ... compute something else ...
//   DISTILL_RETURN_IF_ERROR(sum.Wait());
//
// Every rank hands over the same calls in the same order. Until the last of them has ended, only the AsyncCalls' thread
// may use the communicator. After a call that failed, later ones return its error: the communicator is poisoned.
// The thread's name is distill-comm.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"

namespace distill {

// One call that was handed over; copies are the same call, and may outlive the AsyncCalls.
class AsyncCall {
 public:
  // Blocks until the call has ended, which its own deadline bounds, and those before it; from any thread, any number of
  // times. Cancelled: the AsyncCalls was destroyed before the call began.
  [[nodiscard]] absl::Status Wait() const;
  // Whether Wait would return at once.
  bool done() const;

 private:
  friend class AsyncCalls;
  struct State;
  explicit AsyncCall(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class AsyncCalls {
 public:
  // `communicator` must outlive the result. ResourceExhausted: no thread is to be had.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AsyncCalls>> Start(Communicator* communicator);
  // Begins no further call: those that wait end with Cancelled. Waits for the one that runs.
  ~AsyncCalls();
  AsyncCalls(const AsyncCalls&) = delete;
  AsyncCalls& operator=(const AsyncCalls&) = delete;

  // Returns at once. What `call` refers to, its buffers above all, must stay until the call has ended. It must not
  // throw. From any thread; one at a time, if the order matters.
  AsyncCall Run(std::function<absl::Status(Communicator&)> call);

 private:
  explicit AsyncCalls(Communicator* communicator) : communicator_(*communicator) {}
  void Serve();

  Communicator& communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<AsyncCall::State>> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace distill
