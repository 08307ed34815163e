// The rows of one data set that cannot be used: counted, the first ones named, then refused or left out.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/data/row_options.h"

namespace distill {

struct BadRowCount {
  int64_t count = 0;
  std::vector<std::string> first = {};  // what is wrong with the first ones
};

class BadRowList {
 public:
  // `path`: the data set's, for messages.
  BadRowList(std::string path, const RowOptions& options, BadRowCount so_far = {})
      : path_(std::move(path)), options_(options), bad_(std::move(so_far)) {}

  // `error`: what is wrong with the row, and where it is: "/data/train.jsonl:17: not valid JSON".
  void Add(const absl::Status& error);
  // Whether they are so many that the rest of the data set need not be read: it is refused, and their number is known
  // well enough.
  bool is_full() const;
  const BadRowCount& so_far() const { return bad_; }

  // After the last of `rows` rows that were read, bad ones included. OK: none is bad, or they are left out; rank 0 logs
  // a warning then. InvalidArgument: they are refused, are more than max_bad_rows, or are all the rows there are.
  [[nodiscard]] absl::Status Finish(int64_t rows) const;

 private:
  // "3 bad rows among 40".
  std::string Count(int64_t rows) const;
  // What to do about them; empty where they are left out.
  std::string Advice(int64_t rows) const;
  bool are_refused() const { return options_.bad_rows == BadRows::kRefuse || bad_.count > options_.max_bad_rows; }

  const std::string path_;
  const RowOptions options_;
  BadRowCount bad_;
};

}  // namespace distill
