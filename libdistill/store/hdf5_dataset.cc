#include "libdistill/store/hdf5_dataset.h"

#include <hdf5.h>

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hdf5_object.h"

namespace distill {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 59;  // of 8 bytes, as many as 62 bits count

std::string NameOfFilter(int filter, const char* given) {
  switch (filter) {
    case H5Z_FILTER_DEFLATE:
      return "gzip";
    case H5Z_FILTER_SHUFFLE:
      return "shuffle";
    case H5Z_FILTER_FLETCHER32:
      return "fletcher32";
    case H5Z_FILTER_SZIP:
      return "szip";
    case H5Z_FILTER_NBIT:
      return "nbit";
    case H5Z_FILTER_SCALEOFFSET:
      return "scaleoffset";
    default:
      return *given == '\0' ? absl::StrCat("filter ", filter) : absl::StrCat(given, " (filter ", filter, ")");
  }
}

const char* NameOfClass(H5T_class_t kind) {
  switch (kind) {
    case H5T_TIME:
      return "time";
    case H5T_BITFIELD:
      return "bit field";
    case H5T_OPAQUE:
      return "opaque";
    case H5T_COMPOUND:
      return "compound";
    case H5T_REFERENCE:
      return "reference";
    case H5T_VLEN:
      return "list of any length";
    case H5T_ARRAY:
      return "array";
    default:
      return "unknown";
  }
}

// Whether integers have all bits of their bytes, and floats the layout of IEEE 754.
bool IsPlain(hid_t type, int64_t bytes, bool is_float) {
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return false;
  if (!is_float) return H5Tget_precision(type) == static_cast<size_t>(8 * bytes) && H5Tget_offset(type) == 0;
  size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0 || mantissa != 0)
    return false;
  if (H5Tget_norm(type) != H5T_NORM_IMPLIED || sign != static_cast<size_t>(8 * bytes - 1)) return false;
  const size_t bits = bytes == 2 ? 5 : bytes == 4 ? 8 : 11;
  return bytes > 1 && exponent_bits == bits && mantissa_bits == exponent && exponent + bits == sign &&
         H5Tget_ebias(type) == (size_t{1} << (bits - 1)) - 1;
}

}  // namespace

absl::Status Hdf5Failure() {
  const std::string message = QuietHdf5::Message();
  if (absl::StrContains(message, "version")) {
    return absl::InvalidArgumentError(
        absl::StrCat("written in a form that HDF5 ", &H5_VERS_INFO[13], " does not know (", message,
                     "): write it with h5py's libver=('earliest', 'v110'), or run h5repack --high=2"));
  }
  return absl::DataLossError(absl::StrCat("damaged HDF5 (", message, "); fetch or write it again"));
}

namespace {

// Why HDF5 could not look for `part`: what it lies in is no group, or the file is damaged.
absl::Status CannotLookUp(Hdf5Id file, const std::string& part) {
  const absl::Status failure = Hdf5Failure();  // before the next call clears it
  const std::string parent = part.substr(0, part.rfind('/'));
  H5O_info_t info;
  if (parent.empty() || H5Oget_info_by_name2(file, parent.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0 ||
      info.type != H5O_TYPE_DATASET) {
    return failure;
  }
  return absl::InvalidArgumentError(absl::StrCat(parent, " is itself a data set, where a group that holds ",
                                                 part.substr(parent.size() + 1), " was expected"));
}

}  // namespace

absl::Status CheckHdf5Path(Hdf5Id file, const std::string& name) {
  for (size_t end = 0; end != std::string::npos && end < name.size();) {
    end = name.find('/', end + 1);
    const std::string part = name.substr(0, end);
    if (part == "/" || part.empty()) continue;
    const htri_t is_there = H5Lexists(file, part.c_str(), H5P_DEFAULT);
    if (is_there < 0) return CannotLookUp(file, part);
    if (is_there == 0) return absl::NotFoundError(absl::StrCat("there is no ", part));
    H5L_info_t link;
    if (H5Lget_info(file, part.c_str(), &link, H5P_DEFAULT) < 0) return Hdf5Failure();
    if (link.type == H5L_TYPE_HARD || link.type == H5L_TYPE_SOFT) continue;
    return absl::InvalidArgumentError(absl::StrCat(part, " is an external link, which is not followed: name its file"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> BaseOfHdf5(Hdf5Id file) {
  const Hdf5Handle creation(H5Fget_create_plist(file), H5Pclose);
  hsize_t user_block = 0;
  size_t address_bytes = 0, size_bytes = 0;
  if (!creation.ok() || H5Pget_userblock(creation.id(), &user_block) < 0 ||
      H5Pget_sizes(creation.id(), &address_bytes, &size_bytes) < 0) {
    return Hdf5Failure();
  }
  if (address_bytes == 8 && size_bytes == 8) return static_cast<int64_t>(user_block);
  return absl::InvalidArgumentError("files are read whose addresses and sizes have 8 bytes: copy it by h5repack");
}

absl::StatusOr<std::vector<int64_t>> ShapeOfHdf5Space(Hdf5Id space) {
  if (H5Sget_simple_extent_type(space) == H5S_NULL) {
    return absl::InvalidArgumentError("it holds nothing (h5py.Empty)");
  }
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || rank > H5S_MAX_RANK) return Hdf5Failure();
  hsize_t sizes[H5S_MAX_RANK];
  if (H5Sget_simple_extent_dims(space, sizes, nullptr) < 0) return Hdf5Failure();
  std::vector<int64_t> shape;
  unsigned __int128 elements = 1;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] > static_cast<hsize_t>(kMostElements)) elements = kMostElements + 1;
    if (elements <= static_cast<unsigned __int128>(kMostElements)) elements *= sizes[i] == 0 ? 1 : sizes[i];
    shape.push_back(static_cast<int64_t>(sizes[i]));
  }
  if (elements > static_cast<unsigned __int128>(kMostElements)) {
    return absl::DataLossError("it claims more elements than any file holds");
  }
  return shape;
}

Hdf5Type TypeOfHdf5(Hdf5Id type) {
  Hdf5Type found;
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_ENUM) {
    const Hdf5Handle base(H5Tget_super(type), H5Tclose);
    if (base.ok()) found = TypeOfHdf5(base.id());
    return found;
  }
  found.bytes = static_cast<int64_t>(H5Tget_size(type));
  found.is_little_endian = H5Tget_order(type) != H5T_ORDER_BE;
  if (kind == H5T_STRING) {
    found.kind = Hdf5Kind::kString;
    if (H5Tis_variable_str(type) > 0) found.bytes = 0;
    found.name = found.bytes == 0 ? "string" : absl::StrCat("string of ", found.bytes, " bytes");
    return found;
  }
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) {
    found.name = NameOfClass(kind);
    return found;
  }
  const bool is_float = kind == H5T_FLOAT, is_signed = H5Tget_sign(type) == H5T_SGN_2;
  const char* name = is_float ? "float" : is_signed ? "int" : "uint";
  found.name = absl::StrCat(name, 8 * found.bytes);
  const H5T_order_t order = H5Tget_order(type);
  if (!IsPlain(type, found.bytes, is_float) || (order != H5T_ORDER_LE && order != H5T_ORDER_BE)) {
    found.name = absl::StrCat(is_float ? "float" : "integer", " of ", H5Tget_precision(type), " bits in ", found.bytes,
                              " bytes, of no machine's own kind");
    return found;
  }
  found.kind = is_float ? Hdf5Kind::kFloat : is_signed ? Hdf5Kind::kSigned : Hdf5Kind::kUnsigned;
  return found;
}

std::vector<std::string> CutHdf5Strings(Hdf5Id type, absl::string_view bytes) {
  std::vector<std::string> texts;
  const size_t width = H5Tget_size(type);
  const H5T_str_t padding = H5Tget_strpad(type);
  for (size_t at = 0; width > 0 && at + width <= bytes.size(); at += width) {
    absl::string_view text = bytes.substr(at, width);
    if (padding == H5T_STR_NULLTERM) {
      text = text.substr(0, text.find('\0'));
    } else {
      const size_t last = text.find_last_not_of(padding == H5T_STR_SPACEPAD ? ' ' : '\0');
      text = text.substr(0, last == absl::string_view::npos ? 0 : last + 1);
    }
    texts.emplace_back(text);
  }
  return texts;
}

absl::StatusOr<OpenedHdf5Dataset> OpenedHdf5Dataset::Open(const ReadableFile& bytes, Hdf5Id file,
                                                          const std::string& name) {
  DISTILL_RETURN_IF_ERROR(CheckHdf5Path(file, name));
  DISTILL_ASSIGN_OR_RETURN(const int64_t base, BaseOfHdf5(file));
  H5O_info_t info;
  if (H5Oget_info_by_name2(file, name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return Hdf5Failure();
  DISTILL_RETURN_IF_ERROR(CheckHdf5Header(bytes, base, static_cast<int64_t>(info.addr)));
  Hdf5Handle object(H5Oopen(file, name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object.ok()) return Hdf5Failure();
  if (H5Iget_type(object.id()) != H5I_DATASET) {
    return absl::InvalidArgumentError("is a group or a type, where a data set was expected");
  }
  Hdf5Handle type(H5Dget_type(object.id()), H5Tclose);
  if (!type.ok()) return Hdf5Failure();
  Hdf5Handle creation(H5Dget_create_plist(object.id()), H5Pclose);
  if (!creation.ok()) return Hdf5Failure();
  OpenedHdf5Dataset opened(std::move(object), std::move(type), std::move(creation));
  DISTILL_RETURN_IF_ERROR(opened.Describe(name));
  return opened;
}

absl::Status OpenedHdf5Dataset::Describe(const std::string& name) {
  description_.name = name;
  description_.type = TypeOfHdf5(type_.id());
  element_bytes_ = description_.type.bytes == 0 ? kHdf5ReferenceBytes : description_.type.bytes;
  const Hdf5Handle space(H5Dget_space(dataset_.id()), H5Sclose);
  if (!space.ok()) return Hdf5Failure();
  DISTILL_ASSIGN_OR_RETURN(description_.shape, ShapeOfHdf5Space(space.id()));
  return DescribeLayout();
}

absl::Status OpenedHdf5Dataset::DescribeLayout() {
  const H5D_layout_t layout = H5Pget_layout(creation_.id());
  if (layout < 0) return Hdf5Failure();
  if (layout == H5D_VIRTUAL)
    return absl::InvalidArgumentError("is a virtual data set: name the files that it is made of");
  if (layout == H5D_CONTIGUOUS && H5Pget_external_count(creation_.id()) > 0) {
    return absl::InvalidArgumentError("keeps its values in other files, which are not read: copy it by h5repack");
  }
  is_compact_ = layout == H5D_COMPACT;
  if (layout != H5D_CHUNKED) return absl::OkStatus();
  hsize_t sizes[H5S_MAX_RANK];
  const int rank = H5Pget_chunk(creation_.id(), H5S_MAX_RANK, sizes);
  if (rank < 0 || rank > H5S_MAX_RANK) return Hdf5Failure();
  if (static_cast<size_t>(rank) != description_.shape.size()) {
    return absl::DataLossError("its chunks are of another number of dimensions");
  }
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] == 0 || sizes[i] > 0xffffffff) return absl::DataLossError("its chunks are of no size that there is");
    description_.chunk.push_back(static_cast<int64_t>(sizes[i]));
  }
  const int filters = H5Pget_nfilters(creation_.id());
  for (int i = 0; i < filters; ++i) {
    char name[64] = "";
    unsigned flags = 0, config = 0;
    size_t values = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(creation_.id(), static_cast<unsigned>(i), &flags, &values, nullptr, sizeof(name), name, &config);
    if (filter < 0) return Hdf5Failure();
    filter_ids_.push_back(filter);
    name[sizeof(name) - 1] = '\0';
    description_.filters.push_back(NameOfFilter(filter, name));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Hdf5Filter>> OpenedHdf5Dataset::Filters() const {
  std::vector<Hdf5Filter> filters;
  for (size_t i = 0; i < filter_ids_.size(); ++i) {
    if (filter_ids_[i] == H5Z_FILTER_DEFLATE) {
      filters.push_back(Hdf5Filter::kGzip);
    } else if (filter_ids_[i] == H5Z_FILTER_SHUFFLE) {
      filters.push_back(Hdf5Filter::kShuffle);
    } else if (filter_ids_[i] == H5Z_FILTER_FLETCHER32) {
      filters.push_back(Hdf5Filter::kFletcher32);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("is compressed by ", description_.filters[i],
                       ", which is not read (gzip, shuffle and fletcher32 are): convert the "
                       "file by h5repack -f SHUF -f GZIP=4, or in h5py by compression='gzip'"));
    }
  }
  return filters;
}

absl::StatusOr<std::string> OpenedHdf5Dataset::FillValue() const {
  std::string value(static_cast<size_t>(element_bytes_), '\0');
  if (description_.type.kind == Hdf5Kind::kString) return value;  // as an empty string
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  if (H5Pfill_value_defined(creation_.id(), &defined) < 0) return Hdf5Failure();
  if (defined == H5D_FILL_VALUE_UNDEFINED) return value;
  if (H5Pget_fill_value(creation_.id(), type_.id(), &value[0]) < 0) return Hdf5Failure();
  return value;
}

absl::StatusOr<std::string> OpenedHdf5Dataset::ReadCompact() const {
  if (description_.type.bytes == 0)
    return absl::InvalidArgumentError("its strings of any length lie in its description");
  int64_t bytes = element_bytes_;
  for (const int64_t size : description_.shape) {
    if (size > 0 && bytes > 65536 / size) return absl::DataLossError("it is too large to lie in its description");
    bytes *= size;
  }
  // HDF5 1.10 copies as many as the shape says, however few there are.
  if (H5Dget_storage_size(dataset_.id()) < static_cast<hsize_t>(bytes)) {
    return absl::DataLossError("it has fewer values than its shape says; fetch or write the file again");
  }
  std::string out(static_cast<size_t>(bytes), '\0');
  if (H5Dread(dataset_.id(), type_.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &out[0]) < 0) return Hdf5Failure();
  return out;
}

int64_t OpenedHdf5Dataset::Offset() const {
  // Behind a user block, H5Dget_offset gives an offset also of what was never written.
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  if (H5Dget_space_status(dataset_.id(), &status) < 0 || status == H5D_SPACE_STATUS_NOT_ALLOCATED) return -1;
  const haddr_t offset = H5Dget_offset(dataset_.id());
  return offset == HADDR_UNDEF || offset > static_cast<haddr_t>(INT64_MAX) ? -1 : static_cast<int64_t>(offset);
}

absl::Status OpenedHdf5Dataset::FindChunk(Hdf5Source& source, const std::vector<int64_t>& origin, int64_t most_bytes,
                                          std::vector<Hdf5Chunk>& chunks) const {
  Hdf5Chunk chunk{origin, {}, 0};
  std::vector<hsize_t> at(origin.begin(), origin.end());
  hsize_t stored = 0;
  std::vector<Hdf5Range> ranges;
  if (H5Dget_chunk_storage_size(dataset_.id(), at.data(), &stored) >= 0 && stored > 0) {
    if (stored > static_cast<hsize_t>(most_bytes)) {
      return absl::DataLossError(
          absl::StrCat("the chunk at [", absl::StrJoin(origin, ", "), "] claims ", stored, " bytes"));
    }
    // HDF5 finds the chunk; the driver notes where it is, in place of reading it.
    const std::unique_ptr<char[]> unread(new char[stored]);
    source.recorded = &ranges;
    const herr_t found = H5Dread_chunk(dataset_.id(), H5P_DEFAULT, at.data(), &chunk.skipped, unread.get());
    source.recorded = nullptr;
    if (found < 0) ranges.clear();
  }
  if (ranges.size() == 1) {
    chunk.range = ranges[0];
  } else {
    // Of a chunk that was never written some indices tell a size all the same, and others an error. This asks all of
    // the index, and is for such chunks alone.
    haddr_t address = HADDR_UNDEF;
    if (H5Dget_chunk_info_by_coord(dataset_.id(), at.data(), &chunk.skipped, &address, &stored) < 0) {
      return Hdf5Failure();
    }
    if (address != HADDR_UNDEF) {
      return absl::DataLossError("a chunk lies outside of the file; fetch or write it again");
    }
  }
  chunks.push_back(std::move(chunk));
  return absl::OkStatus();
}

}  // namespace distill
