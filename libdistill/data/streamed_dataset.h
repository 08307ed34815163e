// Rows of files of any format as samples, read forwards only: of compressed JSON Lines, CSV and Parquet, none of whose
// rows can be read by itself, and which no memory holds. From a local disk or out of S3.
//
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<StreamedDataset> rows,
//                            OpenStreamedDataset("s3://bucket/rows", make_sample, {.index_folder = "/var/lines"}));
//
// Who does not care how rows are read calls OpenRowDataset (row_dataset.h).
//
// **Order.** Samples are to be read about in the order of their ids: DataSharder shuffles them in windows of
// `window_rows` (Dataset::window; SampleOrder::ShuffledInWindows says how good a shuffle that is). Reads ahead read the
// files on. A Read that lies behind what is held, or far ahead of it, is right, but costs as much as reading the file
// that the row is in from its beginning (of Parquet, the row group), decompressed up to there: so does a resume in the
// middle of an epoch, once. A new epoch begins with the first file.
//
// **Memory.** Of each of at most two places in the files (a pass that ends and the one that begins, say, or a part that
// trains and one that is held out) three windows of decoded rows and a chunk (about a megabyte of text, or 1024 rows of
// Parquet) are held, and the row group that is read: two windows behind the highest row that was asked for, and one
// that a thread reads ahead while samples are made of the others. Who reads somewhere else has a third such place for
// as long as the Read takes.
//
// **Ranks.** Each rank reads all files, and makes samples of its own rows alone.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/jsonl_dataset.h"
#include "libdistill/data/row_cursor.h"
#include "libdistill/data/row_options.h"
#include "libdistill/data/row_window.h"

namespace distill {

struct RowDatasetOptions {
  std::string split = "";      // of a folder: the files whose names start with it
  RowOptions rows = {};        // names of columns; bad rows cannot be left out, since they are found when they are due
  int64_t num_samples = 0;     // 0: all; otherwise the first ones
  std::string length_of = "";  // the tensor whose first dimension is a sample's length; empty: all have length 1
  std::string index_folder = "";  // where line indices and numbers of rows are kept; empty: in memory
  int64_t threads = 4;            // that index or count rows, each of them those of a file where rows are streamed
  int64_t window_rows = 8192;     // where rows are streamed: those that are shuffled with one another
};

class StreamedDataset : public Dataset {
 public:
  int64_t size() const override { return files_->size(); }
  int64_t window() const override { return window_; }
  // With `length_of` the sample is read: packing, or batches by length, then cost a pass over the data.
  absl::StatusOr<int64_t> Length(int64_t index) const override;
  // Blocks while rows up to this one are read. InvalidArgument, with file and row: it cannot be parsed, or what `make`
  // says. DataLoss: the file is damaged, was replaced, or has not as many rows as were counted. Unavailable: the store
  // does not answer. A Read that failed can be made again.
  absl::StatusOr<Sample> Read(int64_t index) const override;
  // Of sizes, beginnings, ends and numbers of rows of the files, and the versions of those in a store: local copies on
  // several hosts have the same.
  absl::StatusOr<std::string> Fingerprint() const override;
  // Of the rows that are held now.
  int64_t MemoryBytes() const override { return held_->memory_bytes; }

  // For tests, and for who wants to know whether samples are read in a fitting order.
  int64_t rows_held() const { return held_->rows; }
  int64_t starts() const;  // of reading at some place in the files: once an epoch, when all is well

 private:
  friend absl::StatusOr<std::shared_ptr<StreamedDataset>> OpenStreamedDataset(const std::string& path, MakeSample make,
                                                                              const RowDatasetOptions& options);
  StreamedDataset(std::shared_ptr<const CountedFiles> files, MakeSample make, const RowDatasetOptions& options);
  absl::StatusOr<std::shared_ptr<const PlacedRow>> Row(int64_t index) const;
  std::shared_ptr<RowWindow> WindowFor(int64_t index) const;
  void Forget(const std::shared_ptr<RowWindow>& window) const;

  const std::shared_ptr<const CountedFiles> files_;
  const MakeSample make_;
  const std::string length_of_;
  const int64_t window_;
  const std::shared_ptr<HeldRows> held_ = std::make_shared<HeldRows>();
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<RowWindow>> windows_;  // the one that was used last is the last
  mutable int64_t starts_ = 0;
};

// Reads the files once, to count their rows, where no count is kept (of Parquet, and with num_samples, less than that:
// store/row_count.h). InvalidArgument: a pipe, whose rows can be read only once; a format that is not read; no rows;
// options out of range, or bad rows that are to be left out. NotFound: no such file. DataLoss: a damaged file.
[[nodiscard]] absl::StatusOr<std::shared_ptr<StreamedDataset>> OpenStreamedDataset(const std::string& path,
                                                                                   MakeSample make,
                                                                                   const RowDatasetOptions& options);

}  // namespace distill
