// Bytes as what libdistill itself reads of HDF5: the heap of strings, object headers, filters of chunks, and numbers of
// any type. The first byte says which.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libdistill/core/check.h"
#include "libdistill/store/hdf5_convert.h"
#include "libdistill/store/hdf5_filters.h"
#include "libdistill/store/hdf5_object.h"
#include "libdistill/store/hdf5_read.h"

namespace distill {
namespace {

// Takes from the front of the input.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  uint64_t Number(size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, rest_.data(), std::min(bytes, rest_.size()));
    rest_.remove_prefix(std::min(bytes, rest_.size()));
    return value;
  }
  std::string Bytes(size_t most) {
    const std::string bytes(rest_.substr(0, most));
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string Rest() { return Bytes(rest_.size()); }

 private:
  absl::string_view rest_;
};

void CheckKind(const absl::Status& status) {
  const bool is_of_file = status.ok() || absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
  DISTILL_CHECK(is_of_file, "a file's error is no reader's: " + status.ToString());
}

void TryHeap(Input input) {
  const size_t strings = input.Number(1) % 8;
  const auto base = static_cast<int64_t>(input.Number(1));
  const std::string references = input.Bytes(16 * strings);
  const auto file = MakeMemoryFile("fuzzed.hdf5", input.Rest());
  const auto texts = ReadHdf5Heap(*file, base, references, 1 << 16);
  CheckKind(texts.status());
  if (!texts.ok()) return;
  DISTILL_CHECK(texts->size() == references.size() / 16, "one text for each reference");
  for (const std::string& text : *texts) {
    DISTILL_CHECK(static_cast<int64_t>(text.size()) <= file->size(), "no text is longer than the file");
  }
}

void TryObject(Input input) {
  const auto base = static_cast<int64_t>(input.Number(1));
  const auto address = static_cast<int64_t>(input.Number(8) >> 1);
  const auto file = MakeMemoryFile("fuzzed.hdf5", input.Rest());
  const auto value = ReadRawHdf5Attribute(*file, base, address, "name");
  CheckKind(value.status());
  if (value.ok())
    DISTILL_CHECK(static_cast<int64_t>(value->size()) <= file->size(), "no value is longer than the file");
  CheckKind(CheckHdf5Header(*file, base, address));
}

void TryFilters(Input input) {
  std::vector<Hdf5Filter> filters;
  for (uint64_t count = input.Number(1) % 5; count > 0; --count) {
    constexpr Hdf5Filter kKinds[] = {Hdf5Filter::kGzip, Hdf5Filter::kShuffle, Hdf5Filter::kFletcher32};
    filters.push_back(kKinds[input.Number(1) % 3]);
  }
  const auto skipped = static_cast<uint32_t>(input.Number(1));
  const auto element_bytes = static_cast<int64_t>(1 + input.Number(1) % 16);
  const auto chunk_bytes = static_cast<int64_t>(input.Number(2));
  const auto undone = UndoFilters(filters, skipped, element_bytes, chunk_bytes, input.Rest());
  CheckKind(undone.status());
  if (undone.ok()) DISTILL_CHECK(static_cast<int64_t>(undone->size()) == chunk_bytes, "a chunk's size");
}

template <typename T>
void TryNumbers(const Hdf5Type& type, absl::string_view bytes) {
  std::vector<T> values(bytes.size() / static_cast<size_t>(type.bytes));
  CheckKind(
      ConvertNumbers(type, bytes.substr(0, values.size() * static_cast<size_t>(type.bytes)), absl::MakeSpan(values)));
}

void TryAllNumbers(Input input) {
  Hdf5Type type;
  constexpr Hdf5Kind kKinds[] = {Hdf5Kind::kSigned, Hdf5Kind::kUnsigned, Hdf5Kind::kFloat};
  type.kind = kKinds[input.Number(1) % 3];
  type.bytes = int64_t{1} << (input.Number(1) % 4);
  if (type.kind == Hdf5Kind::kFloat) type.bytes = std::max<int64_t>(type.bytes, 2);
  type.is_little_endian = input.Number(1) % 2 == 0;
  type.name = "fuzzed";
  const std::string bytes = input.Rest();
  TryNumbers<float>(type, bytes);
  TryNumbers<double>(type, bytes);
  TryNumbers<int32_t>(type, bytes);
  TryNumbers<int64_t>(type, bytes);
  TryNumbers<uint8_t>(type, bytes);
}

}  // namespace
}  // namespace distill

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr void (*kParts[])(distill::Input) = {distill::TryHeap, distill::TryObject, distill::TryFilters,
                                                distill::TryAllNumbers};
  kParts[data[0] % 4](distill::Input(data + 1, size - 1));
  return 0;
}
