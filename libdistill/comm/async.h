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

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"

namespace distill {

// One call that was handed over; copies are the same call, and may outlive the AsyncCalls.
class AsyncCall {
 public:
  // How a kind of AsyncCalls keeps a call.
  class State {
   public:
    virtual ~State() = default;
    virtual absl::Status Wait() = 0;
    virtual bool done() const = 0;
  };
  explicit AsyncCall(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Blocks until the call has ended, which its own deadline bounds, and those before it; from any thread, any number of
  // times. Cancelled: the AsyncCalls was destroyed before the call began.
  [[nodiscard]] absl::Status Wait() const { return state_->Wait(); }
  // Whether Wait would return at once.
  bool done() const { return state_->done(); }

 private:
  std::shared_ptr<State> state_;
};

class AsyncCalls {
 public:
  // `communicator` must outlive the result. ResourceExhausted: no thread is to be had.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AsyncCalls>> Start(Communicator* communicator);
  // Begins no further call: those that wait end with Cancelled. Waits for the one that runs.
  virtual ~AsyncCalls() = default;
  AsyncCalls(const AsyncCalls&) = delete;
  AsyncCalls& operator=(const AsyncCalls&) = delete;

  // Returns at once. What `call` refers to, its buffers above all, must stay until the call has ended. It must not
  // throw. From any thread; one at a time, if the order matters.
  virtual AsyncCall Run(std::function<absl::Status(Communicator&)> call) = 0;

 protected:
  AsyncCalls() = default;
};

}  // namespace distill
