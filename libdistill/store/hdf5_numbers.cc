// The parts of Hdf5File that need no HDF5.
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hdf5_convert.h"
#include "libdistill/store/hdf5_file.h"

namespace distill {

template <typename T>
absl::Status Hdf5File::Read(const Hdf5Dataset& dataset, const std::vector<int64_t>& offset,
                            const std::vector<int64_t>& count, absl::Span<T> out) const {
  const std::string where = absl::StrCat(file().path(), ": ", dataset.name);
  if (dataset.type.kind == Hdf5Kind::kString) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": its elements are strings, where numbers are wanted"));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(dataset, offset, count));
  if (bytes.size() != out.size() * static_cast<size_t>(dataset.type.bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": room for ", out.size(),
                                                   " elements was given, but the block has ",
                                                   bytes.size() / static_cast<size_t>(dataset.type.bytes)));
  }
  return Annotate(ConvertNumbers(dataset.type, bytes, out), where);
}

template <typename T>
absl::StatusOr<std::vector<T>> Hdf5File::ReadAll(const Hdf5Dataset& dataset) const {
  const std::string where = absl::StrCat(file().path(), ": ", dataset.name);
  if (dataset.type.kind == Hdf5Kind::kString) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": its elements are strings, where numbers are wanted"));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes,
                           ReadBytes(dataset, std::vector<int64_t>(dataset.shape.size(), 0), dataset.shape));
  std::vector<T> values(bytes.size() / static_cast<size_t>(dataset.type.bytes));
  DISTILL_RETURN_IF_ERROR(Annotate(ConvertNumbers(dataset.type, bytes, absl::MakeSpan(values)), where));
  return values;
}

#define DISTILL_OF_HDF5(T)                                                                                           \
  template absl::Status Hdf5File::Read(const Hdf5Dataset&, const std::vector<int64_t>&, const std::vector<int64_t>&, \
                                       absl::Span<T>) const;                                                         \
  template absl::StatusOr<std::vector<T>> Hdf5File::ReadAll<T>(const Hdf5Dataset&) const;
DISTILL_OF_HDF5(float)
DISTILL_OF_HDF5(double)
DISTILL_OF_HDF5(int32_t)
DISTILL_OF_HDF5(int64_t)
DISTILL_OF_HDF5(uint8_t)
#undef DISTILL_OF_HDF5

}  // namespace distill
