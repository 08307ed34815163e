// The gradient that an embedding's table gets from the rows that a step looked up, summed over ranks by itself.
//
// Where a table is also the head (tie_word_embeddings), its gradient has two parts: the head's, of every row, is there
// when the backward pass begins, the looked-up rows' when it ends. As one gradient all of it would leave at the end:
// 545 MB of a Qwen2 of half a billion parameters with nothing left to hide behind. Apart, the head's part travels under
// the backward pass and only rows that some rank looked up, at most one a token, come after it.
//
//   rows.Add(ids, gradients);          // each time that such a gradient is made
//   // ... on the communication thread, every rank, behind the bucket that holds the rest ...
//   rows.Sum(comm, sum);
//   squares += rows.AddTo(table);
//
// The sum over ranks of both parts is the same whenever they leave: first each part over ranks, then one to the other.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"

namespace distill {

class GradientRows {
 public:
  // Of a table [rows, width].
  GradientRows(int64_t rows, int64_t width) : width_(width), place_(static_cast<size_t>(rows), kNowhere) {}

  // Bytes of a step that looks up `looked_up` rows on each of `ranks`: as they came, as the ranks sum them, and where
  // each is.
  static int64_t Bytes(int64_t rows, int64_t width, int64_t looked_up, int64_t ranks);

  // Starts anew, without rows.
  void Clear();
  // ids: int64 [N], each below `rows`; gradients: [N, width] of any float type, on the CPU. Rows that come again add
  // up, in the order of N: the same bits for any number of threads.
  void Add(const torch::Tensor& ids, const torch::Tensor& gradients);
  // Sums over ranks; afterwards these are the rows of all of them. Every rank must call it, also one without rows, with
  // a table of the same shape; blocks. `sum` sums that many values over ranks, in place.
  [[nodiscard]] absl::Status Sum(Communicator& comm, absl::FunctionRef<absl::Status(float* values, int64_t count)> sum);
  // Adds them to a table. Returns by how much its sum of squares has grown, the same bits on every rank.
  double AddTo(float* table) const;
  // How many there are.
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }

 private:
  static constexpr int32_t kNowhere = -1;
  float* Row(std::vector<float>& values, size_t at) const { return values.data() + static_cast<int64_t>(at) * width_; }

  const int64_t width_;
  std::vector<int32_t> place_;  // of each of the table's rows, in ids_
  std::vector<int64_t> ids_;    // in the order in which they came; ascending once they are summed
  std::vector<float> values_;   // [ids, width]
};

}  // namespace distill
