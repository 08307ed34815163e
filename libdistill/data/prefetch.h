// Makes the next step's batches on a thread of its own while the step before is computed.
//
//   Prefetch ahead(batches);                           // a Batches, a DataSharder, or a source of one's own
//   DISTILL_ASSIGN_OR_RETURN(auto step, ahead.NextStep());
//   Save(ahead.Position());                            // of the last step handed out, not of the one made ahead
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"

namespace distill {

// Source has NextStep() -> StatusOr<step>, Position() -> std::string and Restore(position) -> Status, as Batches does;
// one thread at a time calls them, though not always the same.
template <typename Source>
class Prefetch {
 public:
  using Step = typename decltype(std::declval<Source&>().NextStep())::value_type;

  // `source` outlives this, and nobody else uses it meanwhile; afterwards it stands where the last step handed out
  // ended. `prepare`, where there is one, changes each step on the thread that made it: to send it to a GPU, say.
  // After `steps` of them nothing more is begun ahead: what comes then is made when it is asked for.
  explicit Prefetch(Source& source, std::function<void(Step&)> prepare = nullptr,
                    int64_t steps = std::numeric_limits<int64_t>::max())
      : source_(source), prepare_(std::move(prepare)), steps_left_(steps), position_(source.Position()) {}
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;
  ~Prefetch() {
    if (const absl::Status settled = Settle(); !settled.ok()) LogWarning(settled.message());
  }

  // The next step, which is waited for where it is not ready; then the one after it is begun. The source's error comes
  // back when its step is asked for, an exception out of `prepare` is thrown here; nothing is made ahead then, and the
  // next call tries again.
  [[nodiscard]] absl::StatusOr<Step> NextStep() {
    if (!ahead_.valid()) {
      DISTILL_RETURN_IF_ERROR(Settle());
      StartAhead();
    }
    Ahead ahead = ahead_.get();
    if (!ahead.step.ok()) return std::move(ahead.step).status();
    position_ = std::move(ahead.end);
    if (--steps_left_ > 0) StartAhead();
    return ahead.step;
  }

  // Where the last step handed out ended.
  const std::string& Position() const { return position_; }
  // As the source's.
  [[nodiscard]] absl::Status Restore(const std::string& position) {
    DISTILL_RETURN_IF_ERROR(Settle());
    DISTILL_RETURN_IF_ERROR(source_.Restore(position));
    position_ = source_.Position();
    return absl::OkStatus();
  }

  // The source, while no thread uses it; it may stand a step further than Position(). For what does not depend on that.
  Source& Pause() {
    if (ahead_.valid()) ahead_.wait();
    return source_;
  }
  // Drops what was made ahead: the source stands at Position(). The error is that of its Restore.
  [[nodiscard]] absl::Status Settle() {
    if (!has_moved_) return absl::OkStatus();
    if (ahead_.valid()) ahead_.wait();
    ahead_ = {};
    DISTILL_RETURN_IF_ERROR(source_.Restore(position_));
    has_moved_ = false;
    return absl::OkStatus();
  }

 private:
  struct Ahead {
    absl::StatusOr<Step> step;
    std::string end;  // where the source stood after it
  };

  void StartAhead() {
    has_moved_ = true;
    const auto make = [this]() -> Ahead {
      absl::StatusOr<Step> step = source_.NextStep();
      if (step.ok() && prepare_) prepare_(*step);
      return {std::move(step), source_.Position()};
    };
    // Where no thread is to be had the step is made when it is asked for.
    try {
      ahead_ = std::async(std::launch::async, make);
    } catch (const std::system_error&) {
      ahead_ = std::async(std::launch::deferred, make);
    }
  }

  Source& source_;
  const std::function<void(Step&)> prepare_;
  int64_t steps_left_;  // to be handed out, of which the next is begun ahead
  std::string position_;
  std::future<Ahead> ahead_;  // the next step; not valid: nothing is being made
  bool has_moved_ = false;    // the source may stand elsewhere than at position_
};

}  // namespace distill
