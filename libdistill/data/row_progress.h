// How far the reading of a data set is, as log lines: rows may take minutes to become tokens.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace distill {

class RowProgress {
 public:
  using Clock = std::chrono::steady_clock;

  // `name`: of the data set. `bytes`: of all its files. A line is logged at most once in `interval`, and none before
  // the first one is over.
  RowProgress(std::string name, int64_t bytes, Clock::duration interval = std::chrono::seconds(5));

  // So many rows were read, of so many bytes: "chat.jsonl: 20,000 rows, 34 % of 186 MB, 12 s left".
  void Tell(int64_t rows, int64_t bytes);

 private:
  const std::string name_;
  const int64_t bytes_;
  const Clock::duration interval_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace distill
