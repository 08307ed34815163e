// Bytes as a file of rows: JSON Lines, CSV, TSV, Parquet, compressed or not. The first byte chooses the file's name.
// All chunks must give what the file's bytes hold, in one piece or in many, and no row may have a number that is not
// beyond the one before. As many are counted.
#include "libdistill/store/row_reader.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr const char* kNames[] = {"rows.jsonl",  "rows.csv",       "rows.tsv",
                                    "rows.csv.gz", "rows.jsonl.zst", "rows.parquet"};
  if (size == 0) return 0;
  const std::string name = kNames[data[0] % std::size(kNames)];
  auto file = distill::MakeMemoryFile(name, std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  const auto rows = distill::OpenRows(std::move(file));
  if (!rows.ok()) return 0;
  int64_t last = 0;
  for (;;) {
    const auto chunk = (*rows)->NextChunk();
    if (!chunk.ok() || *chunk == nullptr) return 0;
    if ((*chunk)->first_row() <= last) std::abort();
    int64_t count = 0;
    const absl::Status status = (*chunk)->ForEach([&](const absl::StatusOr<distill::FileRow>& row) {
      ++count;
      if (row.ok() && row->number <= last) std::abort();
      if (row.ok()) last = row->number;
      return true;
    });
    if (!status.ok()) return 0;
    if ((*chunk)->CountRows() != count) std::abort();
  }
}
