// Ids in a row, to be appended a few at a time: room for them is made first, then they are written through a pointer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace distill {

class IdBuffer {
 public:
  // Where `count` ids may be written behind the last one; Take says how many were.
  int32_t* Room(size_t count) {
    if (capacity_ - size_ < count) Grow(count);
    return ids_.get() + size_;
  }
  void Take(size_t count) { size_ += count; }
  void Append(int32_t id) {
    *Room(1) = id;
    ++size_;
  }

  const int32_t* data() const { return ids_.get(); }
  size_t size() const { return size_; }
  std::vector<int32_t> Copy() const { return std::vector<int32_t>(data(), data() + size_); }

  // No ids; memory is kept up to a bound.
  void Clear() {
    constexpr size_t kMostKept = 1 << 20;
    size_ = 0;
    if (capacity_ > kMostKept) ids_.reset();
    if (capacity_ > kMostKept) capacity_ = 0;
  }

 private:
  void Grow(size_t count) {
    const size_t capacity = std::max({size_ + count, 2 * capacity_, size_t{1024}});
    std::unique_ptr<int32_t[]> ids(new int32_t[capacity]);
    if (size_ > 0) std::memcpy(ids.get(), ids_.get(), size_ * sizeof(int32_t));
    ids_ = std::move(ids);
    capacity_ = capacity;
  }

  std::unique_ptr<int32_t[]> ids_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace distill
