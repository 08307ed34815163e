#include "libdistill/store/row_reader.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/csv.h"
#include "libdistill/store/decompress.h"
#include "libdistill/store/files.h"
#include "libdistill/store/jsonl.h"
#include "libdistill/store/other_formats.h"
#include "libdistill/store/parquet.h"

namespace distill {
namespace {

constexpr int64_t kBeginningBytes = 256;

// Without the ending that says how it is compressed.
std::string NameInside(const std::string& path, Compression compression) {
  if (compression == Compression::kGzip) return std::string(absl::StripSuffix(path, ".gz"));
  if (compression == Compression::kZstd) return std::string(absl::StripSuffix(path, ".zst"));
  return path;
}

// 0: not one.
char DelimiterOf(const std::string& name) {
  if (absl::EndsWithIgnoreCase(name, ".csv")) return ',';
  return absl::EndsWithIgnoreCase(name, ".tsv") ? '\t' : '\0';
}

absl::Status NotAsNamed(const std::string& path, absl::string_view format) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": its name says ", format,
                                                 ", but its bytes are not: it is damaged, "
                                                 "empty, or was renamed; fetch it again, or give it the right name"));
}

// Of those that a name promises and the bytes must show.
absl::Status CheckIsAsNamed(const std::string& path, absl::string_view beginning) {
  if (absl::EndsWithIgnoreCase(path, ".parquet")) return NotAsNamed(path, "Parquet");
  if (absl::EndsWithIgnoreCase(path, ".gz") && !absl::StartsWith(beginning, "{")) return NotAsNamed(path, "gzip");
  if (absl::EndsWithIgnoreCase(path, ".zst") && !absl::StartsWith(beginning, "{")) return NotAsNamed(path, "zstd");
  return absl::OkStatus();
}

}  // namespace

int64_t RowChunk::CountRows() const {
  int64_t rows = 0;
  // A chunk that cannot be decoded says so to who does.
  (void)ForEach([&rows](const absl::StatusOr<FileRow>&) {
    ++rows;
    return true;
  });
  return rows;
}

absl::StatusOr<std::unique_ptr<RowReader>> OpenRows(std::shared_ptr<const ReadableFile> file,
                                                    const RowFileOptions& options) {
  const std::string path = file->path();
  DISTILL_ASSIGN_OR_RETURN(const std::string beginning, ReadBeginning(*file, kBeginningBytes));
  if (absl::StartsWith(beginning, "PAR1")) return OpenParquetRows(std::move(file), options);
  const Compression compression = CompressionOf(beginning);
  if (compression == Compression::kNone) {
    DISTILL_RETURN_IF_ERROR(CheckIsNoOtherFormat(path, beginning));
    DISTILL_RETURN_IF_ERROR(CheckIsAsNamed(path, beginning));
  }
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> bytes, StreamFile(std::move(file)));
  bytes = Decompress(std::move(bytes), compression, path);
  const char delimiter = DelimiterOf(NameInside(path, compression));
  if (delimiter != '\0' && !absl::StartsWith(beginning, "{"))
    return OpenCsvRows(std::move(bytes), path, delimiter, options);
  return OpenJsonlRows(std::move(bytes), path);
}

}  // namespace distill
