#include "libdistill/store/hdf5_attributes.h"

#include <hdf5.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hdf5_convert.h"
#include "libdistill/store/hdf5_dataset.h"
#include "libdistill/store/hdf5_object.h"
#include "libdistill/store/hdf5_read.h"

namespace distill {
namespace {

constexpr int64_t kMostBytes = int64_t{16} << 20;
constexpr hsize_t kMostAttributes = 65536;

// The object whose attributes are read.
struct Owner {
  const ReadableFile& file;
  const int64_t base, address;
};

absl::StatusOr<std::vector<std::string>> ReadTexts(const Owner& owner, const std::string& name, size_t elements) {
  DISTILL_ASSIGN_OR_RETURN(std::string references, ReadRawHdf5Attribute(owner.file, owner.base, owner.address, name));
  if (references.size() < elements * kHdf5ReferenceBytes) return absl::DataLossError("it is cut; write the file again");
  references.resize(elements * kHdf5ReferenceBytes);
  return ReadHdf5Heap(owner.file, owner.base, references, kMostBytes);
}

absl::Status ReadValues(const Owner& owner, Hdf5Id attribute, Hdf5Id type, int64_t elements, Hdf5Attribute& out) {
  const Hdf5Type found = TypeOfHdf5(type);
  const auto count = static_cast<size_t>(elements);
  if (found.kind == Hdf5Kind::kString && found.bytes == 0) {
    DISTILL_ASSIGN_OR_RETURN(out.values, ReadTexts(owner, out.name, count));
    return absl::OkStatus();
  }
  std::string bytes(count * static_cast<size_t>(found.bytes), '\0');
  if (!bytes.empty() && H5Aread(attribute, type, &bytes[0]) < 0) return Hdf5Failure();
  if (found.kind == Hdf5Kind::kString) {
    out.values = CutHdf5Strings(type, bytes);
    return absl::OkStatus();
  }
  if (found.kind == Hdf5Kind::kFloat) {
    std::vector<double> values(count);
    DISTILL_RETURN_IF_ERROR(ConvertNumbers(found, bytes, absl::MakeSpan(values)));
    out.values = std::move(values);
    return absl::OkStatus();
  }
  std::vector<int64_t> values(count);
  DISTILL_RETURN_IF_ERROR(ConvertNumbers(found, bytes, absl::MakeSpan(values)));
  out.values = std::move(values);
  return absl::OkStatus();
}

// Adds it, where it is of a kind that is read.
absl::Status ReadOne(const Owner& owner, Hdf5Id attribute, std::vector<Hdf5Attribute>& out) {
  char name[1024] = "";
  if (H5Aget_name(attribute, sizeof(name), name) < 0) return Hdf5Failure();
  const Hdf5Handle type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  if (!type.ok() || !space.ok()) return Hdf5Failure();
  const Hdf5Type found = TypeOfHdf5(type.id());
  if (found.kind == Hdf5Kind::kOther || H5Sget_simple_extent_type(space.id()) == H5S_NULL) return absl::OkStatus();
  Hdf5Attribute read{name, {}, {}};
  DISTILL_ASSIGN_OR_RETURN(read.shape, ShapeOfHdf5Space(space.id()));
  int64_t elements = 1;
  for (const int64_t size : read.shape) {
    if (size > 0 && elements > kMostBytes / size) elements = kMostBytes;
    elements *= size > kMostBytes ? 1 : size;
  }
  if (elements * std::max<int64_t>(found.bytes, 1) > kMostBytes || found.bytes > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat("attribute ", name, " has more than ", kMostBytes, " bytes"));
  }
  DISTILL_RETURN_IF_ERROR(
      Annotate(ReadValues(owner, attribute, type.id(), elements, read), absl::StrCat("attribute ", name)));
  out.push_back(std::move(read));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Hdf5Attribute>> ReadHdf5Attributes(const ReadableFile& file, int64_t base, Hdf5Id object) {
  H5O_info_t info;
  if (H5Oget_info2(object, &info, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS) < 0) return Hdf5Failure();
  if (info.num_attrs > kMostAttributes) {
    return absl::DataLossError(absl::StrCat("it claims ", info.num_attrs, " attributes"));
  }
  const Owner owner{file, base, static_cast<int64_t>(info.addr)};
  DISTILL_RETURN_IF_ERROR(CheckHdf5Header(file, base, owner.address));
  std::vector<Hdf5Attribute> attributes;
  for (hsize_t i = 0; i < info.num_attrs; ++i) {
    const Hdf5Handle attribute(H5Aopen_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT),
                               H5Aclose);
    if (!attribute.ok()) return Hdf5Failure();
    DISTILL_RETURN_IF_ERROR(ReadOne(owner, attribute.id(), attributes));
  }
  return attributes;
}

}  // namespace distill
