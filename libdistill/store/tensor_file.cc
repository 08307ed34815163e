#include "libdistill/store/tensor_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// Calls each(offset) with the offset of every element, in row-major order. There is at least one.
template <typename Each>
void ForEachElement(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, const Each& each) {
  const size_t rank = shape.size();
  std::vector<int64_t> index(rank, 0);
  int64_t offset = 0;
  for (;;) {
    each(offset);
    size_t dimension = rank;
    for (; dimension > 0; --dimension) {
      const size_t i = dimension - 1;
      offset += strides[i];
      if (++index[i] < shape[i]) break;
      offset -= shape[i] * strides[i];
      index[i] = 0;
    }
    if (dimension == 0) return;
  }
}

template <typename Stored, typename Read>
void CopyElements(const char* from, const TensorView& view, const std::vector<int64_t>& strides, char* to) {
  ForEachElement(view.shape, strides, [&](int64_t offset) {
    Stored stored;  // the file may not align it
    std::memcpy(&stored, from + offset * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
    const Read read = stored;
    std::memcpy(to, &read, sizeof(Read));
    to += sizeof(Read);
  });
}

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// All elements in row-major order, in the type in which they are read.
void Gather(const char* from, int64_t stored_bytes, const TensorView& view, const std::vector<int64_t>& strides,
            char* to) {
  if (stored_bytes == SizeOf(view.dtype)) {
    switch (stored_bytes) {
      case 1:
        return CopyElements<uint8_t, uint8_t>(from, view, strides, to);
      case 2:
        return CopyElements<uint16_t, uint16_t>(from, view, strides, to);
      case 4:
        return CopyElements<uint32_t, uint32_t>(from, view, strides, to);
      default:
        return CopyElements<uint64_t, uint64_t>(from, view, strides, to);
    }
  }
  if (stored_bytes == 1) return CopyElements<int8_t, int32_t>(from, view, strides, to);
  CopyElements<int16_t, int32_t>(from, view, strides, to);
}

// Rows of a head in order, out of alternating ones (TensorFile::Place).
void ReadHeads(absl::string_view from, const StoredType& type, int64_t head_rows, const TensorView& view, char* to) {
  const int64_t rows = view.shape.front(), row_bytes = view.size_bytes / rows;
  const int64_t stored_row_bytes = static_cast<int64_t>(from.size()) / rows;
  for (int64_t row = 0; row < rows; ++row, to += row_bytes) {
    const int64_t head = row / head_rows, half = row % head_rows / (head_rows / 2), i = row % (head_rows / 2);
    const char* stored = from.data() + (head * head_rows + 2 * i + half) * stored_row_bytes;
    if (type.decode != nullptr) {
      type.decode(stored, stored_row_bytes / type.bytes, to);
    } else {
      std::memcpy(to, stored, static_cast<size_t>(row_bytes));
    }
  }
}

}  // namespace

const StoredType* FindType(absl::Span<const StoredType> types, absl::string_view name) {
  for (const StoredType& type : types) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::optional<int64_t> CheckedBytes(const StoredType& type, const std::vector<int64_t>& shape) {
  int64_t bytes = std::max(type.bytes, SizeOf(type.dtype));
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

const TensorView* TensorFile::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const StoredType* TensorFile::StoredTypeOf(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : found->second.type;
}

absl::StatusOr<TensorView> TensorFile::Load(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return absl::NotFoundError(absl::StrCat(path(), ": no tensor \"", name, "\""));
  const Place& place = places_.at(name);
  const auto annotated = [&](const absl::Status& status) {
    return Annotate(status, absl::StrCat(path(), ": tensor \"", name, "\""));
  };
  TensorView view = found->second;
  absl::StatusOr<FileSlice> slice = bytes_->Read(place.offset, place.span_bytes);
  if (!slice.ok()) return annotated(slice.status());
  view.data = slice->bytes.data();
  view.owner = std::move(slice->owner);
  const bool is_in_order = place.strides.empty() && place.type->bytes == SizeOf(view.dtype) &&
                           place.type->decode == nullptr && place.head_rows == 0;
  if (is_in_order || view.size_bytes == 0) return view;
  absl::StatusOr<std::shared_ptr<char>> memory = AllocateBytes(view.size_bytes);
  if (!memory.ok()) return annotated(memory.status());
  if (place.head_rows > 0) {
    ReadHeads(slice->bytes, *place.type, place.head_rows, view, memory->get());
  } else if (place.type->decode != nullptr) {
    place.type->decode(slice->bytes.data(), place.span_bytes / place.type->bytes, memory->get());
  } else {
    Gather(slice->bytes.data(), place.type->bytes, view,
           place.strides.empty() ? RowMajorStrides(view.shape) : place.strides, memory->get());
  }
  view.data = memory->get();
  view.owner = *std::move(memory);
  return view;
}

void TensorFile::Forget(const std::string& name) const {
  const auto place = places_.find(name);
  if (place != places_.end()) bytes_->Forget(place->second.offset, place->second.span_bytes);
}

bool TensorFile::Add(const std::string& name, std::vector<int64_t> shape, Place place) {
  TensorView view{.dtype = place.type->dtype, .shape = std::move(shape), .data = nullptr, .size_bytes = 0};
  int64_t elements = 1;
  for (const int64_t size : view.shape) elements *= size;
  view.size_bytes = elements * SizeOf(view.dtype);
  return tensors_.emplace(name, std::move(view)).second && places_.emplace(name, std::move(place)).second;
}

}  // namespace distill
