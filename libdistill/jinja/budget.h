// What one rendering may cost, so that a foreign template ends in an error at worst.
//
// Steps stand for time: one for each statement and expression, and one for so many bytes or items that a filter, an
// operator or a method reads. Bytes stand for memory: all text and lists that are built, whether they are let go or
// not, so that no part of the template language needs to count what it holds.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "libdistill/jinja/value.h"

namespace distill::jinja {

class Budget {
 public:
  // One more step, one level deeper, until Leave.
  absl::Status Enter() {
    if (++depth_ > kMaxDepth) return Error("the recursion is too deep");
    return Steps(1);
  }
  void Leave() { --depth_; }

  absl::Status Steps(int64_t steps) {
    steps_ += steps;
    return steps_ > kMaxSteps ? Error("the template runs for too long") : absl::OkStatus();
  }
  // For reading so many bytes of text, or so many items.
  absl::Status Read(int64_t bytes) { return Steps(bytes / kBytesPerStep); }
  absl::Status ReadItems(size_t items) { return Steps(static_cast<int64_t>(items) / kItemsPerStep); }
  // The text of a value, or its items without what lies within them.
  absl::Status ReadShallow(const Value& value) {
    if (value.list() != nullptr) return ReadItems(value.list()->items.size());
    if (value.dict() != nullptr) return ReadItems(value.dict()->entries.size());
    return value.IsString() ? Read(static_cast<int64_t>(value.text()->size())) : absl::OkStatus();
  }
  // All that lies within a value, `times` times: to compare, to sort or to print it.
  absl::Status ReadDeep(const Value& value, int64_t times = 1) { return Read(ExtentOf(value).bytes * times); }

  absl::Status Build(int64_t bytes) {
    built_ += bytes;
    return built_ > kMaxBuilt ? Error("the template builds more than 1 GiB of text and lists") : absl::OkStatus();
  }
  // A new text, or the items of a new list.
  absl::Status BuildShallow(const Value& value) {
    if (value.list() != nullptr) return Build(static_cast<int64_t>(value.list()->items.size() * sizeof(Value)));
    if (value.dict() != nullptr) return Build(static_cast<int64_t>(value.dict()->entries.size() * 4 * sizeof(Value)));
    return value.IsString() ? Build(static_cast<int64_t>(value.text()->size())) : absl::OkStatus();
  }
  // Items of a list that are values of their own, such as the characters of a text.
  absl::Status BuildItems(size_t items) { return Build(static_cast<int64_t>(items) * kBytesPerItem); }

 private:
  static constexpr int kMaxDepth = 1000;
  static constexpr int64_t kMaxSteps = 20'000'000, kBytesPerStep = 1024, kItemsPerStep = 16;
  static constexpr int64_t kBytesPerItem = 96;
  static constexpr int64_t kMaxBuilt = int64_t{1} << 30;

  int depth_ = 0;
  int64_t steps_ = 0, built_ = 0;
};

}  // namespace distill::jinja
