// Makes batches ahead of their use on threads of its own: the sharder deals steps in order, several threads read their
// samples and collate their micro-batches, and the steps are handed out in order.
//
//   Loader<TokenBatch> loader(batches, {.num_workers = 8});
//   DISTILL_ASSIGN_OR_RETURN(auto step, loader.NextStep());
//   Save(loader.Position());                            // of the last step handed out, not of those made ahead
//
// What comes out is, to the last bit, what Batches::NextStep makes, for any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/batches.h"
#include "libdistill/data/loader_options.h"
#include "libdistill/data/step_in_parts.h"
#include "libdistill/data/work_ahead.h"

namespace distill {

template <typename B>
class Loader {
 public:
  using Prepare = std::function<void(B& batch)>;

  // `source` outlives this, and nobody else uses it meanwhile; afterwards it stands where the last step handed out
  // ended. `prepare`, where there is one, changes each batch on the thread that made it: to send it to a GPU, say.
  // After `steps` of them nothing more is begun ahead: what comes then is made when it is asked for.
  explicit Loader(Batches<B>& source, const LoaderOptions& options = {}, Prepare prepare = nullptr,
                  int64_t steps = std::numeric_limits<int64_t>::max())
      : source_(source),
        prepare_(std::move(prepare)),
        position_(source.Position()),
        ahead_([this] { return BeginStep(); }, {.threads = options.num_workers,
                                                .capacity = options.num_workers * options.prefetch_factor,
                                                .pieces = steps}) {}
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  // Waits for the samples that are being read, one a thread.
  ~Loader() {
    if (const absl::Status settled = Settle(); !settled.ok()) LogWarning(settled.message());
  }

  // The next step's micro-batches, which are waited for where they are not ready. The error of a sample or a collator
  // comes back when its step is asked for, an exception out of either or of `prepare` is thrown here; everything stands
  // as before then, and the next call tries again. One thread at a time, as for the others.
  [[nodiscard]] absl::StatusOr<std::vector<B>> NextStep() {
    if (has_failed_) DISTILL_RETURN_IF_ERROR(Settle());
    has_begun_ = true;
    const auto step = std::static_pointer_cast<StepInParts<B>>(ahead_.Next());
    has_failed_ = true;
    DISTILL_ASSIGN_OR_RETURN(std::vector<B> batches, step->Take());
    has_failed_ = false;
    position_ = step->end();
    return batches;
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
  // As the source's, whose answer does not depend on where it stands; waits while a step is dealt.
  [[nodiscard]] absl::StatusOr<int64_t> StepsInEpoch(int64_t epoch) {
    absl::StatusOr<int64_t> steps = 0;
    ahead_.WhileNoneBegins([&] { steps = source_.StepsInEpoch(epoch); });
    return steps;
  }
  // Drops what was made ahead: the source stands at Position(). The error is that of its Restore.
  [[nodiscard]] absl::Status Settle() {
    if (!has_begun_) return absl::OkStatus();
    ahead_.Drop();
    DISTILL_RETURN_IF_ERROR(source_.Restore(position_));
    has_begun_ = has_failed_ = false;
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<WorkAhead::Work> BeginStep() { return std::make_shared<StepInParts<B>>(source_, prepare_); }

  Batches<B>& source_;
  const Prepare prepare_;
  std::string position_;
  bool has_begun_ = false;   // the source may stand elsewhere than at position_
  bool has_failed_ = false;  // the last step
  WorkAhead ahead_;          // last: its threads use what is above
};

}  // namespace distill
