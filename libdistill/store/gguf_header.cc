#include "libdistill/store/gguf_header.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr int kMaxDimensions = 4, kMaxArrayDepth = 4;
constexpr int64_t kMaxNameBytes = 65535;

// The types of metadata's values.
enum ValueType : uint32_t {
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUInt64,
  kInt64,
  kFloat64
};

// Reads what comes next; nothing behind the file's end.
class Cursor {
 public:
  explicit Cursor(const FileBytes& file) : file_(file) {}
  int64_t at() const { return at_; }

  template <typename T>
  absl::StatusOr<T> Number() {
    DISTILL_ASSIGN_OR_RETURN(const FileSlice slice, Next(sizeof(T)));
    T number;
    std::memcpy(&number, slice.bytes.data(), sizeof(T));
    return number;
  }
  // A number of bytes or elements, at least 0.
  absl::StatusOr<int64_t> Count() {
    DISTILL_ASSIGN_OR_RETURN(const uint64_t count, Number<uint64_t>());
    if (count > static_cast<uint64_t>(INT64_MAX)) return Damaged(absl::StrCat("a count of ", count));
    return static_cast<int64_t>(count);
  }
  absl::StatusOr<std::string> Text(int64_t longest) {
    DISTILL_ASSIGN_OR_RETURN(const int64_t size, Count());
    if (size > longest) return Damaged(absl::StrCat("a text of ", size, " bytes"));
    DISTILL_ASSIGN_OR_RETURN(const FileSlice slice, Next(size));
    return std::string(slice.bytes);
  }
  absl::Status Skip(int64_t count, int64_t each) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(count, each, &bytes) || bytes > file_.size() - at_) {
      return Damaged(absl::StrCat(count, " elements of ", each, " bytes"));
    }
    at_ += bytes;
    return absl::OkStatus();
  }
  absl::Status Damaged(const std::string& what) const {
    return absl::DataLossError(absl::StrCat(what, " at byte ", at_, " of ", file_.size(), ": truncated or damaged"));
  }

 private:
  absl::StatusOr<FileSlice> Next(int64_t size) {
    if (size > file_.size() - at_) return Damaged(absl::StrCat("the header goes on"));
    const int64_t begin = std::exchange(at_, at_ + size);
    return file_.Read(begin, size);
  }

  const FileBytes& file_;
  int64_t at_ = 0;
};

int64_t SizeOfValue(uint32_t type) {
  constexpr int64_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kSizes) ? kSizes[type] : 0;
}

template <typename T>
absl::StatusOr<GgufValue> Integer(Cursor& cursor) {
  DISTILL_ASSIGN_OR_RETURN(const T number, cursor.Number<T>());
  if constexpr (sizeof(T) == 8) {
    if (number > static_cast<T>(INT64_MAX)) return cursor.Damaged(absl::StrCat("the number ", number));
  }
  return GgufValue(static_cast<int64_t>(number));
}

// Its elements are passed over: the longest are a tokenizer's.
absl::StatusOr<GgufValue> Array(Cursor& cursor, int depth) {
  if (depth == 0) return cursor.Damaged("arrays in arrays");
  DISTILL_ASSIGN_OR_RETURN(const uint32_t type, cursor.Number<uint32_t>());
  DISTILL_ASSIGN_OR_RETURN(const int64_t count, cursor.Count());
  if (const int64_t size = SizeOfValue(type); size > 0) {
    DISTILL_RETURN_IF_ERROR(cursor.Skip(count, size));
  } else if (type == kString) {
    for (int64_t i = 0; i < count; ++i) {
      DISTILL_ASSIGN_OR_RETURN(const int64_t bytes, cursor.Count());
      DISTILL_RETURN_IF_ERROR(cursor.Skip(bytes, 1));
    }
  } else if (type == kArray) {
    for (int64_t i = 0; i < count; ++i) DISTILL_RETURN_IF_ERROR(Array(cursor, depth - 1).status());
  } else {
    return cursor.Damaged(absl::StrCat("a value of type ", type));
  }
  return GgufValue(GgufArray{count});
}

absl::StatusOr<GgufValue> Value(Cursor& cursor) {
  DISTILL_ASSIGN_OR_RETURN(const uint32_t type, cursor.Number<uint32_t>());
  switch (type) {
    case kUInt8:
      return Integer<uint8_t>(cursor);
    case kInt8:
      return Integer<int8_t>(cursor);
    case kUInt16:
      return Integer<uint16_t>(cursor);
    case kInt16:
      return Integer<int16_t>(cursor);
    case kUInt32:
      return Integer<uint32_t>(cursor);
    case kInt32:
      return Integer<int32_t>(cursor);
    case kUInt64:
      return Integer<uint64_t>(cursor);
    case kInt64:
      return Integer<int64_t>(cursor);
    case kFloat32: {
      DISTILL_ASSIGN_OR_RETURN(const float number, cursor.Number<float>());
      return GgufValue(number);
    }
    case kFloat64: {
      DISTILL_ASSIGN_OR_RETURN(const double number, cursor.Number<double>());
      return GgufValue(static_cast<float>(number));
    }
    case kBool: {
      DISTILL_ASSIGN_OR_RETURN(const uint8_t number, cursor.Number<uint8_t>());
      return GgufValue(number != 0);
    }
    case kString: {
      DISTILL_ASSIGN_OR_RETURN(std::string text, cursor.Text(INT64_MAX));
      return GgufValue(std::move(text));
    }
    case kArray:
      return Array(cursor, kMaxArrayDepth);
    default:
      return cursor.Damaged(absl::StrCat("a value of type ", type));
  }
}

absl::StatusOr<GgufTensor> Tensor(Cursor& cursor) {
  GgufTensor tensor;
  DISTILL_ASSIGN_OR_RETURN(tensor.name, cursor.Text(kMaxNameBytes));
  DISTILL_ASSIGN_OR_RETURN(const uint32_t dimensions, cursor.Number<uint32_t>());
  if (dimensions > kMaxDimensions) return cursor.Damaged(absl::StrCat("a tensor of ", dimensions, " dimensions"));
  for (uint32_t i = 0; i < dimensions; ++i) {
    DISTILL_ASSIGN_OR_RETURN(const int64_t size, cursor.Count());
    tensor.shape.insert(tensor.shape.begin(), size);
  }
  DISTILL_ASSIGN_OR_RETURN(tensor.type, cursor.Number<uint32_t>());
  DISTILL_ASSIGN_OR_RETURN(tensor.offset, cursor.Count());
  return tensor;
}

absl::Status ReadStart(Cursor& cursor) {
  DISTILL_ASSIGN_OR_RETURN(const uint32_t magic, cursor.Number<uint32_t>());
  if (magic != kMagic) {
    return absl::DataLossError("no GGUF file: it does not begin with \"GGUF\"");
  }
  DISTILL_ASSIGN_OR_RETURN(const uint32_t version, cursor.Number<uint32_t>());
  if (version == 2 || version == 3) return absl::OkStatus();
  if (version == 2U << 24 || version == 3U << 24) {
    return absl::DataLossError("the file is big-endian; only little-endian ones are read");
  }
  return absl::DataLossError(absl::StrCat("version ", version, " of GGUF is not read; 2 and 3 are"));
}

absl::StatusOr<int64_t> AlignmentOf(const GgufMetadata& metadata) {
  constexpr int64_t kDefault = 32, kMost = 1 << 20;
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefault;
  const auto* alignment = std::get_if<int64_t>(&found->second);
  if (alignment != nullptr && *alignment > 0 && *alignment <= kMost) return *alignment;
  return absl::DataLossError("\"general.alignment\" is no size of some bytes");
}

}  // namespace

absl::StatusOr<GgufHeader> ReadGgufHeader(const FileBytes& file) {
  Cursor cursor(file);
  DISTILL_RETURN_IF_ERROR(ReadStart(cursor));
  DISTILL_ASSIGN_OR_RETURN(const int64_t tensors, cursor.Count());
  DISTILL_ASSIGN_OR_RETURN(const int64_t values, cursor.Count());
  GgufHeader header;
  for (int64_t i = 0; i < values; ++i) {
    DISTILL_ASSIGN_OR_RETURN(const std::string key, cursor.Text(kMaxNameBytes));
    DISTILL_ASSIGN_OR_RETURN(GgufValue value, Value(cursor));
    if (!header.metadata.emplace(key, std::move(value)).second) {
      return cursor.Damaged(absl::StrCat("the key \"", key, "\" for a second time"));
    }
  }
  for (int64_t i = 0; i < tensors; ++i) {
    DISTILL_ASSIGN_OR_RETURN(GgufTensor tensor, Tensor(cursor));
    header.tensors.push_back(std::move(tensor));
  }
  DISTILL_ASSIGN_OR_RETURN(const int64_t alignment, AlignmentOf(header.metadata));
  const int64_t begin = (cursor.at() + alignment - 1) / alignment * alignment;
  for (GgufTensor& tensor : header.tensors) {
    if (tensor.offset % alignment != 0 || tensor.offset > file.size() - begin) {
      return absl::DataLossError(absl::StrCat("tensor \"", tensor.name, "\" begins at ", tensor.offset,
                                              ", which is not aligned or behind the file's end"));
    }
    tensor.offset += begin;
  }
  return header;
}

}  // namespace distill
