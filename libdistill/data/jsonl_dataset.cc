#include "libdistill/data/jsonl_dataset.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/column_names.h"
#include "libdistill/data/row_files.h"
#include "libdistill/store/block_cache.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/decompress.h"
#include "libdistill/store/jsonl.h"
#include "libdistill/store/line_index.h"
#include "libdistill/store/other_formats.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr int64_t kBeginningBytes = 64 << 10;

absl::Status CheckHasLines(const std::string& path, const std::string& beginning) {
  if (CompressionOf(beginning) != Compression::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is compressed, so that no row of it can be read without those before it: decompress it, "
                     "have its rows streamed (OpenRowDataset), or read once in order (distill_data tokenize, "
                     "LoadTextDataset)"));
  }
  DISTILL_RETURN_IF_ERROR(CheckIsNoOtherFormat(path, beginning));
  const bool is_other = absl::StartsWith(beginning, "PAR1") || absl::EndsWithIgnoreCase(path, ".csv") ||
                        absl::EndsWithIgnoreCase(path, ".tsv");
  if (!is_other) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   ": rows are read by themselves out of JSON Lines alone: write the rows as .jsonl, or have "
                   "them streamed (OpenRowDataset)"));
}

// A file, and how it is read by rows.
struct IndexedFile {
  std::shared_ptr<const ReadableFile> bytes;
  std::shared_ptr<const LineIndex> lines;
  int64_t end = 0;  // of its rows, among those of all files
};

class JsonlDataset : public Dataset {
 public:
  JsonlDataset(MakeSample make, ColumnNames columns, std::string length_of)
      : make_(std::move(make)), columns_(std::move(columns)), length_of_(std::move(length_of)) {}

  absl::Status Add(const std::string& path, const JsonlDatasetOptions& options) {
    DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const ReadableFile> file, OpenFile(path));
    DISTILL_ASSIGN_OR_RETURN(const std::string beginning, ReadBeginning(*file, kBeginningBytes));
    DISTILL_RETURN_IF_ERROR(CheckHasLines(path, beginning));
    DISTILL_ASSIGN_OR_RETURN(auto lines,
                             LineIndex::Open(*file, {.folder = options.index_folder, .threads = options.threads}));
    content_.Add(beginning).Add(absl::StrCat(file->size(), " ", lines->hash()));
    // Rows that lie side by side are fetched together.
    if (IsRemote(path)) file = cache_->Wrap(std::move(file));
    size_ += lines->size();
    files_.push_back({std::move(file), std::move(lines), size_});
    return absl::OkStatus();
  }
  void Limit(int64_t samples) { size_ = std::min(size_, samples); }

  int64_t size() const override { return size_; }

  absl::StatusOr<int64_t> Length(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    if (length_of_.empty()) return 1;
    DISTILL_ASSIGN_OR_RETURN(const Sample sample, Read(index));
    DISTILL_ASSIGN_OR_RETURN(const HostTensor tensor, sample.Find(length_of_));
    return tensor.shape().empty() ? 1 : tensor.shape()[0];
  }

  absl::StatusOr<Sample> Read(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    const auto file = std::upper_bound(files_.begin(), files_.end(), index,
                                       [](int64_t wanted, const IndexedFile& one) { return wanted < one.end; });
    const int64_t row = index - (file->end - file->lines->size());
    const LineIndex::Line line = file->lines->line(row);
    absl::StatusOr<Sample> sample = ReadLine(*file->bytes, line);
    if (!sample.ok()) return Annotate(sample.status(), absl::StrCat(file->bytes->path(), ":", line.number));
    sample->id = index;
    return sample;
  }

  absl::StatusOr<std::string> Fingerprint() const override {
    return absl::StrCat(size_, " rows of JSON Lines with XXH3 ", content_.Hex());
  }

  // Of indices that are not mapped; rows stay in their files.
  int64_t MemoryBytes() const override {
    int64_t bytes = 0;
    for (const IndexedFile& file : files_) bytes += file.lines->MemoryBytes();
    return bytes;
  }

 private:
  absl::StatusOr<Sample> ReadLine(const ReadableFile& file, const LineIndex::Line& line) const {
    const auto size = static_cast<size_t>(std::min<int64_t>(line.bytes, kMaxLineBytes + 1));
    std::string bytes(size + JsonParser::kPadding, '\0');
    DISTILL_RETURN_IF_ERROR(file.ReadAt(line.offset, absl::MakeSpan(&bytes[0], size)));
    absl::string_view text = absl::string_view(bytes).substr(0, size);
    text = text.substr(0, text.find('\n'));
    if (text.size() > kMaxLineBytes) {
      return absl::InvalidArgumentError("the line is longer than 64 MiB; shorten or remove it");
    }
    if (line.offset == 0 && absl::StartsWith(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
    JsonParser parser;
    DISTILL_ASSIGN_OR_RETURN(JsonValue row, parser.Parse(text));
    DISTILL_RETURN_IF_ERROR(columns_.Rename(row));
    return make_(row);
  }

  const MakeSample make_;
  const ColumnNames columns_;
  const std::string length_of_;
  const std::shared_ptr<BlockCache> cache_ = std::make_shared<BlockCache>(BlockCacheOptions{});
  std::vector<IndexedFile> files_;
  int64_t size_ = 0;
  ContentHash content_;
};

}  // namespace

absl::StatusOr<bool> HasRowsByThemselves(const std::string& path) {
  // Whether the bytes are what such a name promises OpenRows says.
  for (const char* ending : {".gz", ".zst", ".parquet"}) {
    if (absl::EndsWithIgnoreCase(path, ending)) return false;
  }
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadableFile> file, OpenFile(path));
  DISTILL_ASSIGN_OR_RETURN(const std::string beginning, ReadBeginning(*file, kBeginningBytes));
  return CheckHasLines(path, beginning).ok();
}

absl::Status CheckCanBeReadByRows(const RowOptions& rows) {
  if (rows.bad_rows == BadRows::kRefuse) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "bad_rows skip needs all rows to be read first, and these are read when they are due: set it to refuse");
}

absl::StatusOr<std::shared_ptr<Dataset>> OpenJsonlDataset(const std::string& path, MakeSample make,
                                                          const JsonlDatasetOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(ColumnNames columns, ColumnNames::Parse(options.columns));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, FindRowFiles(path, options.split));
  auto dataset = std::make_shared<JsonlDataset>(std::move(make), std::move(columns), options.length_of);
  for (const std::string& name : names) DISTILL_RETURN_IF_ERROR(dataset->Add(name, options));
  if (options.num_samples > 0) dataset->Limit(options.num_samples);
  if (dataset->size() > 0) return dataset;
  return absl::InvalidArgumentError(absl::StrCat(path, ": the data set is empty; write a row a line"));
}

}  // namespace distill
