// The thread that owns an endpoint: it alone calls the endpoint's functions, does the calls' work, and in between keeps
// what the provider leaves to whoever polls (connections, acknowledgements, a peer's access to this rank's memory)
// going.
//
//   DISTILL_ASSIGN_OR_RETURN(auto progress, FabricProgress::Start(std::move(endpoint), /*spins=*/false));
//   absl::Status status = progress->Run([&] { return ring.Run(...); });
//
// Between calls it sleeps on the provider's wait object, or polls ever more rarely where there is none; where the
// provider makes progress by itself, or another endpoint's thread polls for all that share the rails, it only waits for
// the next call.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

class FabricProgress {
 public:
  // `spins`: there is a core for this thread beside the caller's, so that waiting for one another may begin with a spin
  // of some microseconds. ResourceExhausted: no thread, or no file descriptor.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FabricProgress>> Start(std::unique_ptr<FabricEndpoint> endpoint,
                                                                             bool spins);
  // Ends the thread, then the endpoint: nothing writes to any buffer afterwards. Not while a Run is under way, and not
  // before what is registered with the endpoint has gone.
  ~FabricProgress();

  // Blocks until `work` has returned on the thread; made on the thread itself, runs it at once. One caller at a time.
  // The thread waits as politely as the caller does (backoff.h).
  [[nodiscard]] absl::Status Run(absl::FunctionRef<absl::Status()> work);

  // Both only from inside `work`, but for what the endpoint says of itself.
  FabricEndpoint& endpoint() { return *endpoint_; }
  // What polling met between the calls; for good.
  const absl::Status& broken() const { return broken_; }

 private:
  enum State : int { kIdle, kHanded, kStopping };
  FabricProgress(std::unique_ptr<FabricEndpoint> endpoint, bool spins)
      : endpoint_(std::move(endpoint)), spins_(spins) {}
  void Serve();
  void AwaitWork();
  void Sleep(absl::Duration limit, bool polls);
  void Hand(State state);
  bool SpinWhile(State state) const;

  std::unique_ptr<FabricEndpoint> endpoint_;
  const bool spins_;
  int wake_ = -1;  // an eventfd: written when the thread may be asleep
  std::atomic<bool> asleep_{false};
  std::atomic<int> state_{kIdle};
  absl::FunctionRef<absl::Status()>* work_ = nullptr;  // while handed over
  bool polite_ = false;                                // whoever handed it over
  absl::Status result_;                                // of it
  absl::Status broken_;                                // the thread's
  std::thread thread_;
};

}  // namespace distill
