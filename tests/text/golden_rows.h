// The cases that tests/golden/text_golden.py wrote into the build folder.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/store/json_value.h"
#include "libdistill/store/row_reader.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

namespace distill {

inline const std::string kGoldenText = GoldenFolder() + "/text";

template <typename Visit>
int64_t ForEachRow(const std::string& path, const Visit& visit) {
  const auto file = OpenFile(path);
  REQUIRE(file.ok());
  const auto reader = OpenRows(*file);
  REQUIRE(reader.ok());
  int64_t rows = 0;
  for (;;) {
    const auto chunk = (*reader)->NextChunk();
    REQUIRE(chunk.ok());
    if (*chunk == nullptr) return rows;
    REQUIRE((*chunk)->ForEach([&](const absl::StatusOr<FileRow>& row) {
      REQUIRE(row.ok());
      visit(row->value);
      ++rows;
      return true;
    }) == absl::OkStatus());
  }
}

inline std::vector<std::pair<size_t, size_t>> Ranges(const JsonValue& list) {
  std::vector<std::pair<size_t, size_t>> ranges;
  for (const JsonValue& item : list.items) ranges.emplace_back(item.items[0].number, item.items[1].number);
  return ranges;
}

}  // namespace distill
