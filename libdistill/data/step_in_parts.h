// A step of a Batches as a Loader's threads make it: each read of a sample is a part, and who has read the last sample
// of a micro-batch collates it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/batches.h"
#include "libdistill/data/work_ahead.h"

namespace distill {

// The error of several parts that comes first in the order in which one thread would have met them, so that the error
// is the same for any number of threads.
class FirstFailure {
 public:
  // Whether something failed before `place`: then it need not be tried.
  bool IsBefore(int64_t place) const { return place_.load(std::memory_order_relaxed) < place; }
  // Notes the error, or what `attempt` throws, as that of `place`.
  void Try(int64_t place, absl::FunctionRef<absl::Status()> attempt) {
    absl::Status status;
    std::exception_ptr thrown;
    try {
      status = attempt();
    } catch (...) {
      thrown = std::current_exception();
    }
    if (status.ok() && thrown == nullptr) return;
    const std::lock_guard lock(mutex_);
    if (place >= place_.load(std::memory_order_relaxed)) return;
    place_.store(place, std::memory_order_relaxed);
    status_ = std::move(status);
    thrown_ = std::move(thrown);
  }
  // When no thread is at work any more. Throws what was thrown.
  absl::Status status() const {
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
    return status_;
  }

 private:
  std::atomic<int64_t> place_ = std::numeric_limits<int64_t>::max();
  std::mutex mutex_;
  absl::Status status_;
  std::exception_ptr thrown_;
};

template <typename B>
class StepInParts : public WorkAhead::Work {
 public:
  // Deals the source's next step. `source` and `prepare` (which may be empty) must outlive this.
  StepInParts(Batches<B>& source, const std::function<void(B&)>& prepare) : source_(source), prepare_(prepare) {
    failure_.Try(kDealt, [&]() -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(DealtStep dealt, source.Deal());
      for (const IndexRows& rows : dealt.micro_batches) Add(rows);
      dealt_ = std::move(dealt);
      return absl::OkStatus();
    });
    is_dealt_ = !failure_.IsBefore(kDealt + 1);
  }

  int64_t num_parts() const override { return std::max<int64_t>(1, std::ssize(parts_)); }
  int64_t weight() const override { return std::max<int64_t>(1, std::ssize(micro_batches_)); }
  bool is_last() const override { return !is_dealt_; }

  void Do(int64_t number) override {
    if (number >= std::ssize(parts_)) return;  // of a step without any
    const Part& part = parts_[static_cast<size_t>(number)];
    MicroBatch& micro_batch = micro_batches_[part.micro_batch];
    // Every part has two places: its own, and that of what follows where it is the last of its micro-batch.
    if (part.sample >= 0 && !failure_.IsBefore(2 * number)) {
      failure_.Try(2 * number, [&]() -> absl::Status {
        DISTILL_ASSIGN_OR_RETURN(micro_batch.rows[part.row][part.column], source_.dataset().Read(part.sample));
        return absl::OkStatus();
      });
    }
    if (micro_batch.unread.fetch_sub(1) > 1 || failure_.IsBefore(2 * micro_batch.last_part + 1)) return;
    failure_.Try(2 * micro_batch.last_part + 1, [&] { return Make(micro_batch); });
  }

  // Once, when all parts are done: the batches, or the step's first error. Throws what was thrown.
  absl::StatusOr<std::vector<B>> Take() {
    DISTILL_RETURN_IF_ERROR(failure_.status());
    std::vector<B> batches;
    for (MicroBatch& micro_batch : micro_batches_) batches.push_back(*std::move(micro_batch.batch));
    return batches;
  }
  // Where the source stood after it.
  const std::string& end() const { return dealt_.end; }

 private:
  static constexpr int64_t kDealt = -1;
  struct Part {
    size_t micro_batch, row, column;
    int64_t sample;  // -1: nothing to read, in a micro-batch without rows
  };
  struct MicroBatch {
    std::vector<SampleRow> rows;
    std::atomic<int64_t> unread = 0;
    int64_t last_part = 0;
    std::optional<B> batch;
  };

  void Add(const IndexRows& rows) {
    const size_t number = micro_batches_.size(), first = parts_.size();
    MicroBatch& micro_batch = micro_batches_.emplace_back();
    for (size_t row = 0; row < rows.size(); ++row) {
      micro_batch.rows.emplace_back(rows[row].size());
      for (size_t column = 0; column < rows[row].size(); ++column) {
        parts_.push_back({number, row, column, rows[row][column]});
      }
    }
    if (parts_.size() == first) parts_.push_back({number, 0, 0, -1});
    micro_batch.unread = static_cast<int64_t>(parts_.size() - first);
    micro_batch.last_part = static_cast<int64_t>(parts_.size()) - 1;
  }

  absl::Status Make(MicroBatch& micro_batch) {
    DISTILL_ASSIGN_OR_RETURN(micro_batch.batch, source_.MakeBatch(micro_batch.rows, dealt_.epoch));
    micro_batch.rows.clear();
    if (prepare_) prepare_(*micro_batch.batch);
    return absl::OkStatus();
  }

  const Batches<B>& source_;
  const std::function<void(B&)>& prepare_;
  DealtStep dealt_;
  std::deque<MicroBatch> micro_batches_;  // which cannot be moved
  std::vector<Part> parts_;
  FirstFailure failure_;
  bool is_dealt_ = false;
};

}  // namespace distill
