// A data set as HDF5 itself sees it: what it is, and where its bytes lie in the file. For .cc files; who calls holds
// the lock of the file (hdf5_file.cc). Errors have HDF5's own words, without the names of file and data set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/hdf5_driver.h"
#include "libdistill/store/hdf5_file.h"
#include "libdistill/store/hdf5_filters.h"

namespace distill {

// DataLoss with what HDF5 found wrong last; InvalidArgument where it is a version of the format that it does not know.
[[nodiscard]] absl::Status Hdf5Failure();

// OK where each part of the path is there. InvalidArgument: an external link.
[[nodiscard]] absl::Status CheckHdf5Path(Hdf5Id file, const std::string& name);

// What addresses in the file begin at. InvalidArgument: they are not of 8 bytes.
[[nodiscard]] absl::StatusOr<int64_t> BaseOfHdf5(Hdf5Id file);

// InvalidArgument: of more elements than there are bytes to count them, or without any (h5py.Empty).
[[nodiscard]] absl::StatusOr<std::vector<int64_t>> ShapeOfHdf5Space(Hdf5Id space);
Hdf5Type TypeOfHdf5(Hdf5Id type);

// Of `bytes` as the elements of a string type of that size lie in a file.
[[nodiscard]] std::vector<std::string> CutHdf5Strings(Hdf5Id type, absl::string_view bytes);

// Of a string of any length: how long, in which collection of the file, which object of it.
constexpr int64_t kHdf5ReferenceBytes = 4 + 8 + 4;

struct Hdf5Chunk {
  std::vector<int64_t> origin;  // its first element in the data set
  Hdf5Range range;              // of size 0: it was never written
  uint32_t skipped = 0;         // as UndoFilters has it
};

class OpenedHdf5Dataset {
 public:
  [[nodiscard]] static absl::StatusOr<OpenedHdf5Dataset> Open(const ReadableFile& bytes, Hdf5Id file,
                                                              const std::string& name);

  const Hdf5Dataset& description() const { return description_; }
  // In the file; of strings of any length, of what refers to each.
  int64_t element_bytes() const { return element_bytes_; }
  Hdf5Id type() const { return type_.id(); }
  // InvalidArgument, with the name of one that is not undone.
  [[nodiscard]] absl::StatusOr<std::vector<Hdf5Filter>> Filters() const;
  // An element that was never written.
  [[nodiscard]] absl::StatusOr<std::string> FillValue() const;
  bool is_compact() const { return is_compact_; }  // inside its description
  [[nodiscard]] absl::StatusOr<std::string> ReadCompact() const;
  // Of one that is neither compact nor in chunks: where its bytes begin; -1: they were never written.
  int64_t Offset() const;
  // Adds where the chunk that begins at `origin` lies.
  [[nodiscard]] absl::Status FindChunk(Hdf5Source& source, const std::vector<int64_t>& origin, int64_t most_bytes,
                                       std::vector<Hdf5Chunk>& chunks) const;

 private:
  OpenedHdf5Dataset(Hdf5Handle dataset, Hdf5Handle type, Hdf5Handle creation)
      : dataset_(std::move(dataset)), type_(std::move(type)), creation_(std::move(creation)) {}
  absl::Status Describe(const std::string& name);
  absl::Status DescribeLayout();

  Hdf5Handle dataset_, type_, creation_;
  Hdf5Dataset description_;
  std::vector<int> filter_ids_;
  int64_t element_bytes_ = 0;
  bool is_compact_ = false;
};

}  // namespace distill
