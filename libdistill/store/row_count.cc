#include "libdistill/store/row_count.h"

#include <limits>
#include <utility>

#include "libdistill/core/status_macros.h"
#include "libdistill/store/index_file.h"

namespace distill {
namespace {

// The first list holds the number of rows, the second one nothing.
constexpr IndexKind kIndexOfRows = {"DSTROW01", ".rows", "the number of its rows"};

absl::StatusOr<MadeIndex> Count(RowReader& rows, const RowCountOptions& options) {
  int64_t count = 0;
  for (;;) {
    if (options.most > 0 && count >= options.most) return MadeIndex{{static_cast<uint64_t>(count)}, {}, false};
    DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<RowChunk> chunk, rows.NextChunk());
    if (chunk == nullptr) return MadeIndex{{static_cast<uint64_t>(count)}, {}, true};
    count += chunk->CountRows();
    if (options.on_chunk) options.on_chunk(count, rows.bytes_read());
  }
}

}  // namespace

absl::StatusOr<RowCount> CountRows(std::shared_ptr<const ReadableFile> file, const RowFileOptions& rows,
                                   const RowCountOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<RowReader> reader, OpenRows(file, rows));
  DISTILL_ASSIGN_OR_RETURN(const int64_t told, reader->SkipRows(std::numeric_limits<int64_t>::max()));
  if (told > 0) return RowCount{told, true};
  bool is_whole = true;
  const auto make = [&]() -> absl::StatusOr<MadeIndex> {
    DISTILL_ASSIGN_OR_RETURN(MadeIndex made, Count(*reader, options));
    is_whole = made.is_whole;
    return made;
  };
  // Whether its first line is a row follows from whether columns were named.
  const IndexPlace place{.folder = options.folder, .options = rows.csv_names.empty() ? "" : "without a line of names"};
  DISTILL_ASSIGN_OR_RETURN(const IndexLists lists, OpenIndex(*file, kIndexOfRows, place, make));
  if (lists.first.size() != 1) return absl::DataLossError("an index of rows holds one number; remove its folder");
  return RowCount{static_cast<int64_t>(lists.first[0]), is_whole};
}

}  // namespace distill
