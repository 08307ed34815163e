// HDF5 files, of any store, read by parts without a copy of the whole: groups, data sets with what they are,
// attributes, and any block of a data set ("hyperslab"). docs/formats.md, "HDF5", says which files are read.
//
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const Hdf5File> file, Hdf5File::Open("s3://bucket/data_train.hdf5"));
//   DISTILL_ASSIGN_OR_RETURN(const Hdf5Dataset features, file->Find("/trial_0007/input_features"));
//   std::vector<float> frames(100 * features.shape[1]);                                  // frames 50 to 149 of it
//   DISTILL_RETURN_IF_ERROR(file->Read(features, {50, 0}, {100, features.shape[1]}, absl::MakeSpan(frames)));
//
// Any thread may call any function. HDF5 itself works for one thread of the process at a time; what takes long,
// fetching chunks and decompressing them, is done outside of it, by as many threads as read.
//
// Every error names the file and what was read of it. NotFound: no such group, data set or attribute. InvalidArgument:
// a kind of data that is not read, values that the wanted type cannot hold. OutOfRange: not within the data set.
// DataLoss: the file is damaged. Those of its store stay as they are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/store/block_cache.h"
#include "libdistill/store/readable_file.h"

namespace distill {

struct Hdf5Options {
  // Shared by several files; null: a cache of this file's own, of 64 blocks of 1 MiB.
  std::shared_ptr<BlockCache> cache = {};
  int64_t most_chunk_bytes = int64_t{256} << 20;  // of a decompressed chunk, which is held in memory as a whole
  int64_t most_read_bytes = int64_t{4} << 30;     // of one call
};

enum class Hdf5Kind { kSigned, kUnsigned, kFloat, kString, kOther };

struct Hdf5Type {
  Hdf5Kind kind = Hdf5Kind::kOther;
  int64_t bytes = 0;  // of an element; 0: of strings of any length
  bool is_little_endian = true;
  std::string name;  // "float32", "uint16", "string", or what it is that is not read: "compound"
};

struct Hdf5Dataset {
  std::string name;  // its path in the file, "/trial_0007/input_features"
  Hdf5Type type;
  std::vector<int64_t> shape;        // [] is a scalar
  std::vector<int64_t> chunk;        // of as many dimensions as shape; empty: not in chunks
  std::vector<std::string> filters;  // "gzip", "shuffle", "fletcher32", ..., in the order of writing
};

struct Hdf5Link {
  std::string name;      // without the group
  int64_t address = -1;  // in the file, where its object begins; -1 of a soft or external link
};

struct Hdf5Attribute {
  std::string name;
  std::vector<int64_t> shape;  // [] is one value; [0] none
  std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string>> values;
};

class Hdf5File {
 public:
  // Reads the file's first block, and blocks meanwhile. Unimplemented where libdistill was built without HDF5.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const Hdf5File>> Open(const std::string& path,
                                                                            const Hdf5Options& options = {});
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const Hdf5File>> Open(std::shared_ptr<const ReadableFile> file,
                                                                            const Hdf5Options& options = {});
  virtual ~Hdf5File() = default;

  virtual const ReadableFile& file() const = 0;
  // What lies in a group, by name; "/" is the file's own. None of them is opened.
  [[nodiscard]] virtual absl::StatusOr<std::vector<Hdf5Link>> List(const std::string& group) const = 0;
  // The names of all data sets in a group and those below it. Each is opened.
  [[nodiscard]] virtual absl::StatusOr<std::vector<std::string>> ListDatasets(const std::string& group = "/") const = 0;
  [[nodiscard]] virtual absl::StatusOr<Hdf5Dataset> Find(const std::string& dataset) const = 0;
  // Of a group or data set: those that are numbers or strings.
  [[nodiscard]] virtual absl::StatusOr<std::vector<Hdf5Attribute>> Attributes(const std::string& object) const = 0;

  // The block [offset, offset + count) of a data set of numbers, row by row. T: float, double, int32_t, int64_t,
  // uint8_t. Integers become floats where these hold them exactly, and floats integers where they are whole; float64
  // becomes float32 by rounding. InvalidArgument, with the first value that T cannot hold; or `out` is of another size.
  template <typename T>
  [[nodiscard]] absl::Status Read(const Hdf5Dataset& dataset, const std::vector<int64_t>& offset,
                                  const std::vector<int64_t>& count, absl::Span<T> out) const;
  // All of it.
  template <typename T>
  [[nodiscard]] absl::StatusOr<std::vector<T>> ReadAll(const Hdf5Dataset& dataset) const;
  // Reads such a block of numbers as Read does, and makes no numbers of it: whether its chunks are whole.
  [[nodiscard]] absl::Status Check(const Hdf5Dataset& dataset, const std::vector<int64_t>& offset,
                                   const std::vector<int64_t>& count) const {
    return ReadBytes(dataset, offset, count).status();
  }
  // As Read, of strings.
  [[nodiscard]] virtual absl::StatusOr<std::vector<std::string>> ReadStrings(
      const Hdf5Dataset& dataset, const std::vector<int64_t>& offset, const std::vector<int64_t>& count) const = 0;

 private:
  // The elements as they are in the file.
  [[nodiscard]] virtual absl::StatusOr<std::string> ReadBytes(const Hdf5Dataset& dataset,
                                                              const std::vector<int64_t>& offset,
                                                              const std::vector<int64_t>& count) const = 0;
};

}  // namespace distill
