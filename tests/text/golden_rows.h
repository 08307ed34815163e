// The cases that tests/golden/text_golden.py wrote into the build folder.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/store/jsonl.h"
#include "tests/support/catch.h"

namespace distill {

inline const std::string kGoldenText = std::string(DISTILL_BUILD_DIR) + "/golden/text";

template <typename Visit>
int64_t ForEachRow(const std::string& path, const Visit& visit) {
  auto reader = JsonlReader::Open(path);
  REQUIRE(reader.ok());
  int64_t rows = 0;
  for (;; ++rows) {
    const auto row = reader->Next();
    REQUIRE(row.ok());
    if (!row->has_value()) return rows;
    visit((*row)->value);
  }
}

inline std::vector<std::pair<size_t, size_t>> Ranges(const JsonValue& list) {
  std::vector<std::pair<size_t, size_t>> ranges;
  for (const JsonValue& item : list.items) ranges.emplace_back(item.items[0].number, item.items[1].number);
  return ranges;
}

}  // namespace distill
