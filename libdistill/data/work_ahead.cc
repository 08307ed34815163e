#include "libdistill/data/work_ahead.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/thread.h"

namespace distill {

WorkAhead::WorkAhead(Begin begin, const Options& options)
    : begin_(std::move(begin)), options_(options), pieces_left_(options.pieces) {}

WorkAhead::~WorkAhead() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    ForgetAll();
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<WorkAhead::Work> WorkAhead::Next() {
  StartThreads();
  std::unique_lock lock(mutex_);
  may_begin_ = is_awaited_ = true;
  if (pieces_.empty()) has_ended_ = false;
  if (threads_.empty() && pieces_.empty()) {
    BeginOne(lock);
    DoParts(*pieces_.front());
    pieces_.front()->is_finished = true;
    unclaimed_.clear();
  }
  work_.notify_one();
  ready_.wait(lock, [this] { return !pieces_.empty() && pieces_.front()->is_finished; });
  is_awaited_ = false;
  const std::shared_ptr<Piece> first = std::move(pieces_.front());
  pieces_.pop_front();
  weight_ -= first->work->weight();
  if (pieces_left_ > 0) --pieces_left_;
  work_.notify_one();
  return first->work;
}

void WorkAhead::Drop() {
  std::unique_lock lock(mutex_);
  may_begin_ = false;
  ready_.wait(lock, [this] { return !is_beginning_; });
  has_ended_ = false;
  ForgetAll();
}

void WorkAhead::WhileNoneBegins(const std::function<void()>& use) {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return !is_beginning_; });
  use();  // BeginOne needs the lock to begin
}

void WorkAhead::StartThreads() {
  if (std::exchange(has_started_, true)) return;
  for (int64_t i = 0; i < options_.threads; ++i) {
    absl::StatusOr<std::thread> thread = StartThread("reading data ahead", [this] { Serve(); });
    if (!thread.ok()) {
      LogWarning(absl::StrCat(thread.status().message(), "; data is read by ", i, " threads of ", options_.threads));
      return;
    }
    threads_.push_back(*std::move(thread));
  }
}

void WorkAhead::Serve() {
  YieldToOtherThreads();  // where cores are few, a step must not wait for the data of later ones
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stops_ || HasMoreToDo(); });
    if (stops_) return;
    if (unclaimed_.empty()) {
      BeginOne(lock);
      continue;
    }
    const std::shared_ptr<Piece> piece = unclaimed_.front();
    // Threads wake one another, one each, so that quick work does not wake them all.
    if (piece->num_parts - piece->claimed > 1 || CanBegin()) work_.notify_one();
    lock.unlock();
    const bool finishes = DoParts(*piece);
    lock.lock();
    if (!unclaimed_.empty() && unclaimed_.front() == piece) unclaimed_.pop_front();
    if (!finishes) continue;
    piece->is_finished = true;
    ready_.notify_all();
  }
}

bool WorkAhead::CanBegin() const {
  if (!may_begin_ || has_ended_ || is_beginning_ || stops_) return false;
  if (pieces_.empty() && is_awaited_) return true;
  const bool is_wanted = static_cast<int64_t>(pieces_.size()) < pieces_left_;
  return is_wanted && (pieces_.empty() || weight_ < options_.capacity);
}

void WorkAhead::BeginOne(std::unique_lock<std::mutex>& lock) {
  is_beginning_ = true;
  lock.unlock();
  auto piece = std::make_shared<Piece>(begin_());
  lock.lock();
  is_beginning_ = false;
  ready_.notify_all();
  if (stops_) return;
  weight_ += piece->work->weight();
  has_ended_ = piece->work->is_last();
  pieces_.push_back(piece);
  unclaimed_.push_back(std::move(piece));
}

void WorkAhead::ForgetAll() {
  for (const auto& piece : pieces_) piece->is_dropped = true;
  pieces_.clear();
  unclaimed_.clear();
  weight_ = 0;
}

bool WorkAhead::DoParts(Piece& piece) {
  bool finishes = false;
  while (!piece.is_dropped) {
    const int64_t part = piece.claimed.fetch_add(1);
    if (part >= piece.num_parts) break;
    piece.work->Do(part);
    finishes = piece.done.fetch_add(1) + 1 == piece.num_parts;
  }
  return finishes;
}

}  // namespace distill
