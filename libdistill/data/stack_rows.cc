#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"

namespace distill {
namespace {

std::string LengthsOf(const std::string& name) { return name + "_lengths"; }

// The same tensor of every row's sample.
using Column = std::vector<HostTensor>;

// Room for the rows of a tensor, filled with one value.
class Filled {
 public:
  Filled(DType dtype, int64_t count) : bytes_(std::make_shared<std::vector<char>>(count * SizeOf(dtype))) {}
  template <typename T>
  void Fill(double value) {
    T* values = reinterpret_cast<T*>(bytes_->data());
    std::fill_n(values, bytes_->size() / sizeof(T), static_cast<T>(value));
  }
  char* at(int64_t byte) { return bytes_->data() + byte; }
  HostTensor Finish(DType dtype, std::vector<int64_t> shape) && {
    const char* begin = bytes_->data();
    return HostTensor(dtype, std::move(shape), std::shared_ptr<const void>(std::move(bytes_), begin));
  }

 private:
  std::shared_ptr<std::vector<char>> bytes_;
};

// False: of none of these types.
template <typename... T>
bool FillAs(DType dtype, double value, Filled& room) {
  return ((dtype == DTypeOf<T>() && (room.Fill<T>(value), true)) || ...);
}

absl::Status FillWith(double value, const HostTensor& like, const std::string& name, Filled& room) {
  if (FillAs<float, double, int32_t, int64_t, uint8_t>(like.dtype(), value, room)) return absl::OkStatus();
  if (value == 0) return absl::OkStatus();  // zero bytes are zero
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is ", NameOf(like.dtype()), ", which is padded with 0 alone, not with ", value));
}

// Whether b goes into the same batch as a.
bool IsAlike(const HostTensor& a, const HostTensor& b, bool is_padded) {
  if (a.dtype() != b.dtype() || a.shape().size() != b.shape().size()) return false;
  const size_t first = is_padded ? 1 : 0;
  return a.shape().size() >= first && std::equal(a.shape().begin() + first, a.shape().end(), b.shape().begin() + first);
}

absl::StatusOr<Column> ColumnOf(absl::Span<const SampleRow> rows, const std::string& name, bool is_padded) {
  Column column;
  for (const SampleRow& row : rows) {
    DISTILL_ASSIGN_OR_RETURN(HostTensor tensor, row[0].Find(name));
    const HostTensor& first = column.empty() ? tensor : column[0];
    if (!IsAlike(first, tensor, is_padded)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' is ", tensor.Describe(), " in sample ", row[0].id, ", but ", first.Describe(), " in sample ",
          rows[0][0].id,
          is_padded ? ": only the first dimension may differ in a batch"
                    : ": a batch holds tensors of one shape; pad it (Padding) where its first dimension may differ"));
    }
    column.push_back(std::move(tensor));
  }
  return column;
}

// One under the other, each filled up to the longest where there is a padding.
absl::StatusOr<HostTensor> Stack(const Column& column, const Padding* padding) {
  const HostTensor& first = column[0];
  std::vector<int64_t> shape = first.shape();
  if (padding != nullptr) {
    for (const HostTensor& tensor : column) shape[0] = std::max(shape[0], tensor.shape()[0]);
  }
  const int64_t of_row = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  shape.insert(shape.begin(), static_cast<int64_t>(column.size()));
  Filled room(first.dtype(), of_row * shape[0]);
  if (padding != nullptr) DISTILL_RETURN_IF_ERROR(FillWith(padding->value, first, padding->name, room));
  for (size_t i = 0; i < column.size(); ++i) {
    char* row = room.at(static_cast<int64_t>(i) * of_row * SizeOf(first.dtype()));
    if (column[i].size() > 0) std::memcpy(row, column[i].data(), column[i].size_bytes());
  }
  return std::move(room).Finish(first.dtype(), std::move(shape));
}

absl::Status CheckRows(absl::Span<const SampleRow> rows, absl::Span<const Padding> padded) {
  for (const SampleRow& row : rows) {
    if (row.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("a row of ", row.size(), " samples (packing): this batch has ",
                                                     "one sample a row; set packing to false"));
    }
    for (const auto& [name, tensor] : row[0].tensors) {
      if (rows[0][0].tensors.count(name) > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("sample ", row[0].id, " has a tensor '", name, "', which sample ", rows[0][0].id, " lacks"));
    }
  }
  for (const Padding& padding : padded) {
    DISTILL_RETURN_IF_ERROR(rows[0][0].Find(padding.name).status());
    if (rows[0][0].tensors.count(LengthsOf(padding.name)) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("the samples have a tensor '", LengthsOf(padding.name),
                                                   "', which is to be the lengths of '", padding.name, "': rename it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Batch> StackRows(absl::Span<const SampleRow> rows, absl::Span<const Padding> padded) {
  Batch batch;
  if (rows.empty()) return batch;
  DISTILL_RETURN_IF_ERROR(CheckRows(rows, padded));
  for (const SampleRow& row : rows) batch.sample_ids.push_back(row[0].id);
  for (const auto& [name, tensor] : rows[0][0].tensors) {
    const auto padding =
        std::find_if(padded.begin(), padded.end(), [&name = name](const Padding& one) { return one.name == name; });
    const bool is_padded = padding != padded.end();
    DISTILL_ASSIGN_OR_RETURN(const Column column, ColumnOf(rows, name, is_padded));
    DISTILL_ASSIGN_OR_RETURN(batch.tensors[name], Stack(column, is_padded ? &*padding : nullptr));
    if (!is_padded) continue;
    std::vector<int64_t> lengths;
    for (const HostTensor& one : column) lengths.push_back(one.shape()[0]);
    batch.tensors[LengthsOf(name)] = HostTensor(std::move(lengths));
  }
  return batch;
}

}  // namespace distill
