// HDF5's way to a file of ours: a read-only virtual file driver. For .cc files that call HDF5.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/readable_file.h"

namespace distill {

using Hdf5Id = int64_t;  // HDF5's hid_t, without its header

struct Hdf5Range {
  int64_t offset = 0;
  int64_t size = 0;
};

// What the driver and who opened the file know of each other. Used while no other thread calls HDF5 for that file.
struct Hdf5Source {
  std::shared_ptr<const ReadableFile> file;
  absl::Status failed;                         // of the store, since it was last cleared
  std::vector<Hdf5Range>* recorded = nullptr;  // where it is not null, raw data are noted there in place of being read
  bool is_open = false;
};

// The file's id, to be closed by H5Fclose before `source` goes. Negative: an error is on HDF5's stack, or in
// source.failed.
Hdf5Id OpenHdf5Source(Hdf5Source& source);

// While it lives, HDF5 prints no errors of this thread.
class QuietHdf5 {
 public:
  QuietHdf5();
  ~QuietHdf5();
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;

  // What HDF5 found wrong in the last call, in its own words; the innermost of its messages.
  static std::string Message();

 private:
  int (*print_)(Hdf5Id, void*) = nullptr;
  void* data_ = nullptr;
};

// An id that is closed with its owner.
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  Hdf5Handle(Hdf5Id id, int (*close)(Hdf5Id)) : id_(id), close_(close) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(other.id_), close_(other.close_) { other.id_ = -1; }
  Hdf5Handle& operator=(Hdf5Handle&&) = delete;
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }

  bool ok() const { return id_ >= 0; }
  Hdf5Id id() const { return id_; }

 private:
  Hdf5Id id_ = -1;
  int (*close_)(Hdf5Id) = nullptr;
};

}  // namespace distill
