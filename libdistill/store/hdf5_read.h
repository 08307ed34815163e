// A block of an HDF5 data set, gathered out of where its parts lie. For .cc files.
//
// HDF5 says where chunks are, some at a time, under the lock of the file; they are fetched, decompressed and copied
// outside of it, so that other threads may go on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/hdf5_dataset.h"

namespace distill {

class Hdf5BlockReader {
 public:
  Hdf5BlockReader(const ReadableFile& file, const Hdf5Options& options, const std::vector<int64_t>& offset,
                  const std::vector<int64_t>& count)
      : file_(file), options_(options), offset_(offset), count_(count) {}

  // The first, under the lock. `expected`: what the caller takes the data set for.
  [[nodiscard]] absl::Status Prepare(Hdf5Id file, const Hdf5Dataset& expected);
  bool is_done() const { return is_done_; }
  // Under the lock: the next few chunks. Then ReadChunks without it, until is_done().
  [[nodiscard]] absl::Status FindChunks(Hdf5Id file, Hdf5Source& source);
  [[nodiscard]] absl::Status ReadChunks();
  // The elements as the file has them.
  std::string bytes() && { return std::move(bytes_); }

 private:
  absl::Status CheckBlock();
  absl::Status ReadContiguous();
  void CopyBlock(const std::string& from, const std::vector<int64_t>& origin, const std::vector<int64_t>& shape);
  bool AdvanceChunk();

  const ReadableFile& file_;
  const Hdf5Options options_;
  const std::vector<int64_t> offset_, count_;
  Hdf5Dataset dataset_;
  int64_t element_bytes_ = 0, contiguous_ = -1, chunk_bytes_ = 0;
  size_t block_bytes_ = 0;
  std::string fill_, bytes_;
  std::vector<Hdf5Filter> filters_;
  std::vector<int64_t> next_;  // where the next chunk begins
  std::vector<Hdf5Chunk> chunks_;
  bool has_more_ = false, is_done_ = false;
};

// Strings of any length: `references` is what a data set has of each, 16 bytes. `base`: what addresses begin at.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ReadHdf5Heap(const ReadableFile& file, int64_t base,
                                                                    absl::string_view references, int64_t most_bytes);

}  // namespace distill
