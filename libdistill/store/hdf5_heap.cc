// HDF5's global heap (its file format, III.E): collections of objects, among them strings of any length. Our own, since
// HDF5 1.10 trusts the lengths that a damaged file tells.
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hdf5_read.h"

namespace distill {
namespace {

constexpr int64_t kHeadBytes = 16, kMostCollectionBytes = 64 << 20;

uint64_t Number(absl::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return value;
}

using Collection = std::map<uint64_t, std::string>;  // objects by their number

absl::StatusOr<Collection> ReadCollection(const ReadableFile& file, int64_t offset) {
  const absl::Status damaged = absl::DataLossError("the heap of its strings is damaged; fetch or write the file again");
  std::string bytes(kHeadBytes, '\0');
  if (!CheckRange(file, offset, bytes.size()).ok()) return damaged;
  DISTILL_RETURN_IF_ERROR(file.ReadAt(offset, absl::MakeSpan(bytes)));
  const uint64_t size = Number(bytes, 8, 8);
  if (bytes.compare(0, 5, absl::string_view("GCOL\1", 5).data(), 5) != 0 || size < kHeadBytes ||
      size > static_cast<uint64_t>(kMostCollectionBytes) || !CheckRange(file, offset, size).ok()) {
    return damaged;
  }
  bytes.resize(size);
  DISTILL_RETURN_IF_ERROR(file.ReadAt(offset, absl::MakeSpan(&bytes[0], bytes.size())));
  Collection objects;
  for (size_t at = kHeadBytes; bytes.size() - at >= kHeadBytes;) {
    const uint64_t number = Number(bytes, at, 2), length = Number(bytes, at + 8, 8);
    if (number == 0) break;  // free space, up to the end
    if (length > bytes.size() - at - kHeadBytes) return damaged;
    objects[number] = bytes.substr(at + kHeadBytes, length);
    at += kHeadBytes + (length + 7) / 8 * 8;
    if (at > bytes.size()) break;
  }
  return objects;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadHdf5Heap(const ReadableFile& file, int64_t base,
                                                      absl::string_view references, int64_t most_bytes) {
  std::vector<std::string> texts;
  uint64_t last = 0;
  Collection objects;
  for (size_t at = 0; at + 16 <= references.size(); at += 16) {
    const uint64_t length = Number(references, at, 4), address = Number(references, at + 4, 8);
    std::string& text = texts.emplace_back();
    if (length == 0 || address == 0) continue;
    if (address > static_cast<uint64_t>(file.size())) return absl::DataLossError("a string lies outside of the file");
    if (address != last) {
      DISTILL_ASSIGN_OR_RETURN(objects, ReadCollection(file, base + static_cast<int64_t>(address)));
      last = address;
    }
    const auto found = objects.find(Number(references, at + 12, 4));
    if (found == objects.end() || found->second.size() < length) {
      return absl::DataLossError("a string is not where the file says; fetch or write it again");
    }
    text.assign(found->second, 0, length);
    text.resize(text.find('\0') == std::string::npos ? text.size() : text.find('\0'));
    most_bytes -= static_cast<int64_t>(length);
    if (most_bytes < 0) return absl::InvalidArgumentError("its strings are too long to be read at a time: read fewer");
  }
  return texts;
}

}  // namespace distill
