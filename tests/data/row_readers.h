// The readers of rows there are, each with rows that it can use and rows that it cannot.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/row_options.h"

namespace distill {

// What a data set is made of: its fingerprint and its summary.
using Loaded = absl::StatusOr<std::string>;

struct BadRow {
  std::string row;
  std::string reason;
};

struct Reader {
  const char* name;
  std::function<Loaded(const std::string& path, int64_t num_samples, const RowOptions& rows)> load;
  std::vector<std::string> good;
  std::vector<BadRow> bad;
};

Reader ChatReader();
Reader LabelReader();
// Every one, with the rows that are bad for all of them too.
std::vector<Reader> Readers();

}  // namespace distill
