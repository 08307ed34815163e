#include "libdistill/store/hdf5_driver.h"

#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace distill {
namespace {

static_assert(std::is_same_v<Hdf5Id, hid_t>);

// H5FD_t is HDF5's part of it, and comes first.
struct DriverFile {
  H5FD_t head;
  Hdf5Source* source;
  haddr_t end_of_allocation;
};
static_assert(std::is_standard_layout_v<DriverFile>);

DriverFile& Of(H5FD_t* file) { return *reinterpret_cast<DriverFile*>(file); }
const DriverFile& Of(const H5FD_t* file) { return *reinterpret_cast<const DriverFile*>(file); }

// The driver's settings in a list of file access properties: a pointer, which HDF5 copies.
struct DriverSettings {
  Hdf5Source* source;
};

H5FD_t* OpenFileOfDriver(const char*, unsigned flags, hid_t settings, haddr_t) {
  const auto* found = static_cast<const DriverSettings*>(H5Pget_driver_info(settings));
  // HDF5 opens a file again for an external link, whose name it then hands over: such files are not read.
  if (found == nullptr || found->source->is_open || (flags & H5F_ACC_RDWR) != 0) return nullptr;
  found->source->is_open = true;
  auto* file = new DriverFile;
  std::memset(&file->head, 0, sizeof(file->head));
  file->source = found->source;
  file->end_of_allocation = 0;
  return &file->head;
}

herr_t CloseFileOfDriver(H5FD_t* file) {
  Of(file).source->is_open = false;
  delete &Of(file);
  return 0;
}

int CompareFiles(const H5FD_t* a, const H5FD_t* b) {
  return Of(a).source == Of(b).source ? 0 : Of(a).source < Of(b).source ? -1 : 1;
}

herr_t QueryFeatures(const H5FD_t*, unsigned long* flags) {
  if (flags != nullptr) *flags = H5FD_FEAT_DATA_SIEVE;
  return 0;
}

haddr_t EndOfAllocation(const H5FD_t* file, H5FD_mem_t) { return Of(file).end_of_allocation; }

herr_t SetEndOfAllocation(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  Of(file).end_of_allocation = address;
  return 0;
}

haddr_t EndOfFile(const H5FD_t* file, H5FD_mem_t) { return static_cast<haddr_t>(Of(file).source->file->size()); }

herr_t ReadForDriver(H5FD_t* file, H5FD_mem_t kind, hid_t, haddr_t address, size_t size, void* out) {
  Hdf5Source& source = *Of(file).source;
  const auto end = static_cast<haddr_t>(source.file->size());
  if (address > end || size > end - address) return -1;
  const auto offset = static_cast<int64_t>(address);
  if (kind == H5FD_MEM_DRAW && source.recorded != nullptr) {
    source.recorded->push_back({offset, static_cast<int64_t>(size)});
    return 0;
  }
  const absl::Status status = source.file->ReadAt(offset, absl::MakeSpan(static_cast<char*>(out), size));
  source.failed.Update(status);
  return status.ok() ? 0 : -1;
}

herr_t RefuseWrite(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }
herr_t NothingToTruncate(H5FD_t*, hid_t, hbool_t) { return 0; }
herr_t NothingToLock(H5FD_t*, hbool_t) { return 0; }
herr_t NothingToUnlock(H5FD_t*) { return 0; }

const H5FD_class_t& DriverClass() {
  static const H5FD_class_t* const driver = [] {
    auto* made = new H5FD_class_t;
    std::memset(made, 0, sizeof(*made));
    made->name = "libdistill";
    made->maxaddr = (haddr_t{1} << 62) - 1;
    made->fc_degree = H5F_CLOSE_STRONG;
    made->fapl_size = sizeof(DriverSettings);
    made->open = OpenFileOfDriver;
    made->close = CloseFileOfDriver;
    made->cmp = CompareFiles;
    made->query = QueryFeatures;
    made->get_eoa = EndOfAllocation;
    made->set_eoa = SetEndOfAllocation;
    made->get_eof = EndOfFile;
    made->read = ReadForDriver;
    made->write = RefuseWrite;
    made->truncate = NothingToTruncate;
    made->lock = NothingToLock;
    made->unlock = NothingToUnlock;
    std::fill(std::begin(made->fl_map), std::end(made->fl_map), H5FD_MEM_SUPER);
    return made;
  }();
  return *driver;
}

// Of the process, as HDF5's own drivers are. Threads may still read when the process ends: HDF5 must not close itself.
hid_t DriverOfProcess() {
  static const hid_t driver = [] {
    H5dont_atexit();
    H5open();
    return H5FDregister(&DriverClass());
  }();
  return driver;
}

herr_t TakeInnermost(unsigned number, const H5E_error2_t* error, void* data) {
  if (number == 0 && error->desc != nullptr) *static_cast<std::string*>(data) = error->desc;
  return 0;
}

}  // namespace

Hdf5Id OpenHdf5Source(Hdf5Source& source) {
  const hid_t driver = DriverOfProcess();
  const Hdf5Handle settings(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  const DriverSettings mine{&source};
  if (driver < 0 || !settings.ok() || H5Pset_driver(settings.id(), driver, &mine) < 0) return -1;
  if (H5Pset_fclose_degree(settings.id(), H5F_CLOSE_STRONG) < 0) return -1;
  return H5Fopen(source.file->path().c_str(), H5F_ACC_RDONLY, settings.id());
}

QuietHdf5::QuietHdf5() {
  DriverOfProcess();
  H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5Eclear2(H5E_DEFAULT);
}

QuietHdf5::~QuietHdf5() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }

std::string QuietHdf5::Message() {
  std::string message;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, TakeInnermost, &message);
  return message.empty() ? "HDF5 gives no reason" : message;
}

}  // namespace distill
