#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/checkpoint/lease.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

// The lease as it is in the store; of version "" where there is none.
struct Stored {
  std::string text;
  std::string version;
};

absl::StatusOr<Stored> ReadLeaseOnce(const std::string& path) {
  const absl::StatusOr<std::shared_ptr<const ReadableFile>> file = OpenFile(path);
  if (!file.ok()) return file.status();
  DISTILL_ASSIGN_OR_RETURN(std::string text, ReadAll(**file));
  return Stored{std::move(text), (*file)->version()};
}

// Whoever has it may renew it between the opening and the reading (DataLoss): then it is read anew.
absl::StatusOr<Stored> ReadLease(const std::string& path) {
  constexpr int kReadings = 5;
  absl::StatusOr<Stored> lease = ReadLeaseOnce(path);
  for (int reading = 1; absl::IsDataLoss(lease.status()) && reading < kReadings; ++reading) lease = ReadLeaseOnce(path);
  if (absl::IsNotFound(lease.status())) return Stored();
  return lease;
}

class StoreLock : public OutputLock::Holder {
 public:
  StoreLock(const std::string& output_dir, const OutputLockTimes& times)
      : output_dir_(output_dir), path_(JoinPath(output_dir, ".lock")), times_(times), own_(OwnLeaseWithoutLock()) {}
  ~StoreLock() override;

  absl::Status Take() override;
  absl::Status Confirm() override;

 private:
  absl::StatusOr<Stored> AwaitOther(Stored other);
  absl::Status Write(const std::string& version);
  void Renew();

  const std::string output_dir_, path_;
  const OutputLockTimes times_;
  const Lease own_;
  bool is_taken_ = false;
  int64_t counter_ = 0;
  std::string version_;  // of what was written last
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_ending_ = false;
  std::thread renewer_;
};

absl::Status StoreLock::Take() {
  absl::StatusOr<Stored> there = ReadLease(path_);
  if (!there.ok()) return Annotate(there.status(), "output_dir");
  if (!there->text.empty() && !HasEndedHere(ParseLease(there->text), own_)) {
    DISTILL_ASSIGN_OR_RETURN(there, AwaitOther(*std::move(there)));
  }
  DISTILL_RETURN_IF_ERROR(Annotate(Write(there->version), "output_dir"));
  is_taken_ = true;
  DISTILL_ASSIGN_OR_RETURN(renewer_, StartThread("the lease of output_dir", [this] { Renew(); }));
  return absl::OkStatus();
}

// Returns it as it is after the patience.
absl::StatusOr<Stored> StoreLock::AwaitOther(Stored other) {
  SayWaits(output_dir_, ParseLease(other.text), times_.patience);
  const absl::Time end = absl::Now() + times_.patience;
  while (absl::Now() < end) {
    absl::SleepFor(std::min(times_.patience / 20, absl::Seconds(1)));
    DISTILL_ASSIGN_OR_RETURN(const Stored now, ReadLease(path_));
    if (now.text.empty()) return now;  // given back
    if (now.text != other.text) return InUse(output_dir_, ParseLease(now.text));
  }
  SayTakesOver(output_dir_, ParseLease(other.text), times_.patience);
  return other;
}

// FailedPrecondition: another run has written it since it had `version`.
absl::Status StoreLock::Write(const std::string& version) {
  const std::string text = LeaseText(own_, counter_++);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(path_));
  const absl::StatusOr<std::string> written = store->WriteIf(path_, text, version);
  if (written.ok()) {
    version_ = *written;
    return absl::OkStatus();
  }
  if (absl::IsUnimplemented(written.status())) return WriteWholeFile(path_, text);
  if (!absl::IsAborted(written.status())) return written.status();
  // Or it was written, and the answer to that was lost.
  DISTILL_ASSIGN_OR_RETURN(const Stored now, ReadLease(path_));
  if (now.text != text) return InUse(output_dir_, ParseLease(now.text));
  version_ = now.version;
  return absl::OkStatus();
}

// One that somebody removed is written anew by the next renewal.
absl::Status StoreLock::Confirm() {
  const std::lock_guard lock(mutex_);
  DISTILL_ASSIGN_OR_RETURN(const Stored now, ReadLease(path_));
  const Lease lease = ParseLease(now.text);
  if (!lease.empty() && !IsOfSameRun(lease, own_)) return InUse(output_dir_, lease);
  version_ = now.version;
  return absl::OkStatus();
}

// A store that does not answer ends nothing: who takes over has watched for the patience, and is told of here.
void StoreLock::Renew() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, absl::ToChronoMilliseconds(times_.renewal), [this] { return is_ending_; })) {
    const std::string before = version_;
    lock.unlock();  // it may take long
    const absl::StatusOr<Stored> now = ReadLease(path_);
    lock.lock();
    if (!now.ok() || version_ != before) continue;
    const Lease lease = ParseLease(now->text);
    absl::Status renewed = lease.empty() || IsOfSameRun(lease, own_) ? Write(now->version) : InUse(output_dir_, lease);
    if (renewed.ok()) {
      is_taken_ = true;
    } else if (absl::IsFailedPrecondition(renewed) && std::exchange(is_taken_, false)) {
      LogWarning(absl::StrCat("this run has lost its output_dir, and both write it now: ", renewed.message()));
    }
  }
}

StoreLock::~StoreLock() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ends_.notify_all();
  if (renewer_.joinable()) renewer_.join();
  if (!is_taken_) return;
  absl::Status given_back = Confirm();
  if (absl::IsFailedPrecondition(given_back)) return;
  const absl::StatusOr<std::shared_ptr<Store>> store = StoreOf(path_);
  if (given_back.ok()) given_back = store.ok() ? (*store)->Remove(path_) : store.status();
  if (!given_back.ok()) {
    LogWarning(absl::StrCat(path_, " stays: ", given_back.message(), "; the next run waits for ",
                            absl::FormatDuration(times_.patience), " before it takes the folder"));
  }
}

}  // namespace

std::unique_ptr<OutputLock::Holder> MakeStoreLock(const std::string& output_dir, const OutputLockTimes& times) {
  return std::make_unique<StoreLock>(output_dir, times);
}

}  // namespace distill
