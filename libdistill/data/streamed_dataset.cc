#include "libdistill/data/streamed_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/row_files.h"
#include "libdistill/data/row_progress.h"
#include "libdistill/data/rows.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/files.h"
#include "libdistill/store/in_parallel.h"
#include "libdistill/store/row_count.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr size_t kMostWindows = 2;
constexpr int64_t kEdgeBytes = 64 << 10;

absl::Status CheckOptions(const RowDatasetOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckCanBeReadByRows(options.rows));
  if (options.window_rows >= 1 && options.num_samples >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("window_rows is ", options.window_rows, " and num_samples ",
                                                 options.num_samples, ": at least 1 and at least 0 are needed"));
}

absl::StatusOr<RowCount> CountFile(const CountedFile& file, const RowFileOptions& rows,
                                   const RowDatasetOptions& options, int64_t most) {
  RowProgress progress(file.bytes->path(), file.bytes->size());
  return CountRows(file.bytes, rows,
                   {.folder = options.index_folder,
                    .most = most,
                    .on_chunk = [&progress](int64_t counted, int64_t bytes) { progress.Tell(counted, bytes); }});
}

// Up to `num_samples` rows, so that files, and parts of them, that come after them need not be read.
absl::Status CountFirst(CountedFiles& files, const RowDatasetOptions& options) {
  int64_t end = 0;
  for (size_t i = 0; i < files.files.size(); ++i) {
    CountedFile& file = files.files[i];
    const int64_t left = options.num_samples - end;
    DISTILL_ASSIGN_OR_RETURN(const RowCount count, CountFile(file, files.options, options, left));
    file.is_whole = count.is_whole && count.rows <= left;
    file.end = end += std::min(count.rows, left);
    if (end == options.num_samples) files.files.resize(i + 1);
  }
  return absl::OkStatus();
}

absl::Status CountAll(CountedFiles& files, const RowDatasetOptions& options) {
  const auto threads = static_cast<size_t>(std::max<int64_t>(1, options.threads));
  DISTILL_RETURN_IF_ERROR(InParallel(files.files.size(), threads, [&](size_t i) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const RowCount count, CountFile(files.files[i], files.options, options, /*most=*/0));
    files.files[i].end = count.rows;
    return absl::OkStatus();
  }));
  for (size_t i = 1; i < files.files.size(); ++i) files.files[i].end += files.files[i - 1].end;
  return absl::OkStatus();
}

}  // namespace

StreamedDataset::StreamedDataset(std::shared_ptr<const CountedFiles> files, MakeSample make,
                                 const RowDatasetOptions& options)
    : files_(std::move(files)), make_(std::move(make)), length_of_(options.length_of), window_(options.window_rows) {}

// The one that has the row, or will have it soon; else a new one, which takes the place of the one that was not used
// for longest. Reading on past rows that nobody asks for costs less than beginning anew, unless that is at a later
// file.
std::shared_ptr<RowWindow> StreamedDataset::WindowFor(int64_t index) const {
  // Whoever asks for a row will ask for those of its window, of which this may be the last.
  const int64_t first = std::max<int64_t>(0, index - 2 * window_);
  std::shared_ptr<RowWindow> dropped;  // without the lock, since its thread may be reading
  const std::lock_guard lock(mutex_);
  auto found = windows_.end();
  int64_t nearest = files_->Begin(files_->FileOf(first)) - 1;
  for (auto window = windows_.begin(); window != windows_.end(); ++window) {
    const auto [begin, end] = (*window)->range();
    if (begin <= index && index < end) {
      found = window;
      break;
    }
    if (end > index || end <= nearest) continue;
    found = window;
    nearest = end;
  }
  if (found == windows_.end()) {
    if (windows_.size() == kMostWindows) {
      dropped = std::move(windows_.front());
      windows_.erase(windows_.begin());
    }
    windows_.push_back(std::make_shared<RowWindow>(files_, first, window_, held_));
    ++starts_;
  } else {
    std::rotate(found, found + 1, windows_.end());
  }
  return windows_.back();
}

void StreamedDataset::Forget(const std::shared_ptr<RowWindow>& window) const {
  const std::lock_guard lock(mutex_);
  windows_.erase(std::remove(windows_.begin(), windows_.end(), window), windows_.end());
}

absl::StatusOr<std::shared_ptr<const PlacedRow>> StreamedDataset::Row(int64_t index) const {
  for (;;) {
    const std::shared_ptr<RowWindow> window = WindowFor(index);
    absl::StatusOr<std::shared_ptr<const PlacedRow>> row = window->Read(index);
    if (!row.ok()) Forget(window);  // so that another Read begins anew
    if (!row.ok() || *row != nullptr) return row;
  }
}

absl::StatusOr<Sample> StreamedDataset::Read(int64_t index) const {
  DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const PlacedRow> row, Row(index));
  absl::StatusOr<Sample> sample = row->status.ok() ? make_(row->value) : row->status;
  if (!sample.ok() && row->number > 0) {
    return Annotate(sample.status(), absl::StrCat(files_->files[row->file].bytes->path(), ":", row->number));
  }
  if (sample.ok()) sample->id = index;
  return sample;
}

absl::StatusOr<int64_t> StreamedDataset::Length(int64_t index) const {
  DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
  if (length_of_.empty()) return 1;
  DISTILL_ASSIGN_OR_RETURN(const Sample sample, Read(index));
  DISTILL_ASSIGN_OR_RETURN(const HostTensor tensor, sample.Find(length_of_));
  return tensor.shape().empty() ? 1 : tensor.shape()[0];
}

absl::StatusOr<std::string> StreamedDataset::Fingerprint() const {
  ContentHash content;
  for (const CountedFile& file : files_->files) {
    const ReadableFile& bytes = *file.bytes;
    std::string edge(static_cast<size_t>(std::min(bytes.size(), kEdgeBytes)), '\0');
    for (const int64_t at : {int64_t{0}, bytes.size() - static_cast<int64_t>(edge.size())}) {
      DISTILL_RETURN_IF_ERROR(bytes.ReadAt(at, absl::MakeSpan(edge)));
      content.Add(edge);
    }
    content.Add(absl::StrCat(bytes.size(), " ", file.end, " ", IsRemote(bytes.path()) ? bytes.version() : "", "\n"));
  }
  return absl::StrCat(size(), " rows of ", files_->files.size(), " files with XXH3 ", content.Hex(), " in windows of ",
                      window_);
}

int64_t StreamedDataset::starts() const {
  const std::lock_guard lock(mutex_);
  return starts_;
}

absl::StatusOr<std::shared_ptr<StreamedDataset>> OpenStreamedDataset(const std::string& path, MakeSample make,
                                                                     const RowDatasetOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckOptions(options));
  auto files = std::make_shared<CountedFiles>();
  files->options = FileOptionsOf(options.rows);
  DISTILL_ASSIGN_OR_RETURN(files->columns, ColumnNames::Parse(options.rows.columns));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, FindRowFiles(path, options.split));
  for (const std::string& name : names) {
    if (IsPipe(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          name,
          " is a pipe, whose rows can be read only once, but each epoch reads them again: write them to a file, "
          "or tokenize them first (distill_data tokenize)"));
    }
    CountedFile file;
    DISTILL_ASSIGN_OR_RETURN(file.bytes, OpenFile(name));
    files->files.push_back(std::move(file));
  }
  DISTILL_RETURN_IF_ERROR(options.num_samples > 0 ? CountFirst(*files, options) : CountAll(*files, options));
  if (files->size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the data set is empty; it needs at least one row"));
  }
  return std::shared_ptr<StreamedDataset>(new StreamedDataset(std::move(files), std::move(make), options));
}

}  // namespace distill
