// Object headers (HDF5's file format, IV.A), of which only attributes are looked for. Our own, as the global heap in
// hdf5_heap.cc: HDF5 1.10 copies strings of attributes without a look at their lengths, and damaged ones crash it.
#include "libdistill/store/hdf5_object.h"

#include <vector>

#include "absl/strings/match.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr uint64_t kContinuation = 0x10, kAttribute = 0x0c, kLayout = 0x08, kShared = 2;
constexpr size_t kMostParts = 1024, kMostPartBytes = 16 << 20;

absl::Status Damaged() { return absl::DataLossError("its description is damaged; fetch or write the file again"); }

uint64_t Number(absl::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size && at + i < bytes.size(); ++i) {
    value |= uint64_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  }
  return value;
}

size_t Padded(size_t size) { return (size + 7) / 8 * 8; }

// Of a part of a header that the file has in one piece.
struct Part {
  uint64_t address = 0;
  uint64_t size = 0;
};

class HeaderReader {
 public:
  HeaderReader(const ReadableFile& file, int64_t base, const std::string& name)
      : file_(file), base_(static_cast<uint64_t>(base)), name_(name) {}

  absl::Status Walk(uint64_t address) {
    DISTILL_RETURN_IF_ERROR(ReadPrefix(address));
    for (size_t i = 0; i < parts_.size() && !is_found_; ++i) {
      if (i == kMostParts) return Damaged();
      DISTILL_RETURN_IF_ERROR(ReadPart(parts_[i], i == 0));
    }
    return is_damaged_ ? Damaged() : absl::OkStatus();
  }

  absl::StatusOr<std::string> Find(uint64_t address) {
    DISTILL_RETURN_IF_ERROR(Walk(address));
    if (is_found_) return value_;
    return absl::InvalidArgumentError(
        "the object has too many attributes for strings of any length: write it with h5py's libver='earliest', or the "
        "string as numpy.bytes_");
  }

 private:
  absl::Status Read(uint64_t address, uint64_t size, std::string& bytes) const {
    const auto end = static_cast<uint64_t>(file_.size());
    if (size > kMostPartBytes || address > end || base_ > end - address || size > end - address - base_)
      return Damaged();
    bytes.assign(size, '\0');
    return file_.ReadAt(static_cast<int64_t>(base_ + address), absl::MakeSpan(&bytes[0], size));
  }

  absl::Status ReadPrefix(uint64_t address) {
    std::string head, size;
    DISTILL_RETURN_IF_ERROR(Read(address, 16, head));
    if (Number(head, 0, 1) == 1) {
      parts_ = {{address + 16, Number(head, 8, 4)}};
      return absl::OkStatus();
    }
    if (!absl::StartsWith(head, "OHDR\2")) return Damaged();
    is_old_ = false;
    const uint64_t flags = Number(head, 5, 1), width = uint64_t{1} << (flags & 3);
    const uint64_t at = 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
    DISTILL_RETURN_IF_ERROR(Read(address + at, width, size));
    message_head_ = (flags & 4) != 0 ? 6 : 4;
    parts_ = {{address + at + width, Number(size, 0, width)}};
    return absl::OkStatus();
  }

  absl::Status ReadPart(Part part, bool is_first) {
    std::string bytes;
    DISTILL_RETURN_IF_ERROR(Read(part.address, part.size, bytes));
    if (!is_old_ && !is_first) {  // a signature, and a checksum at the end
      if (bytes.size() < 8 || !absl::StartsWith(bytes, "OCHK")) return Damaged();
      bytes = bytes.substr(4, bytes.size() - 8);
    }
    const size_t head = is_old_ ? 8 : message_head_;
    for (size_t at = 0; bytes.size() - at >= head && !is_found_;) {
      const uint64_t kind = Number(bytes, at, is_old_ ? 2 : 1), size = Number(bytes, at + (is_old_ ? 2 : 1), 2);
      const uint64_t flags = Number(bytes, at + (is_old_ ? 4 : 3), 1);
      at += head;
      if (size > bytes.size() - at) return Damaged();
      const absl::string_view message = absl::string_view(bytes).substr(at, size);
      if (kind == kContinuation && size >= 16) parts_.push_back({Number(message, 0, 8), Number(message, 8, 8)});
      if (kind == kLayout) CheckChunk(message);
      if (kind == kAttribute && (flags & kShared) == 0) {
        CheckAttribute(message);
        TakeAttribute(message);
      }
      at += size;
    }
    return absl::OkStatus();
  }

  // Of version 3, which 1.10 does not check: class 2 are chunks, with their address and the size of each dimension.
  void CheckChunk(absl::string_view message) {
    if (Number(message, 0, 1) != 3 || Number(message, 1, 1) != 2) return;
    const size_t dimensions = Number(message, 2, 1);
    for (size_t i = 0; i < dimensions; ++i) {
      is_damaged_ = is_damaged_ || Number(message, 11 + 4 * i, 4) == 0;
    }
  }

  // What HDF5 1.10 reads without a look at where the message ends: the name up to its zero, and the parts behind it.
  void CheckAttribute(absl::string_view message) {
    const uint64_t version = Number(message, 0, 1), name = Number(message, 2, 2);
    const uint64_t type = Number(message, 4, 2), space = Number(message, 6, 2);
    if (version < 1 || version > 3) return;  // which it refuses
    const size_t begin = version == 3 ? 9 : 8;
    const size_t end = begin + (version == 1 ? Padded(name) + Padded(type) + Padded(space) : name + type + space);
    is_damaged_ =
        is_damaged_ || end > message.size() || message.substr(begin, name).find('\0') == absl::string_view::npos;
  }

  void TakeAttribute(absl::string_view message) {
    const uint64_t version = Number(message, 0, 1), name = Number(message, 2, 2);
    const uint64_t type = Number(message, 4, 2), space = Number(message, 6, 2);
    const size_t begin = version == 3 ? 9 : 8;
    if (version < 1 || version > 3 || begin + name > message.size()) return;
    const absl::string_view found = message.substr(begin, name);
    if (found.substr(0, found.find('\0')) != name_) return;
    const size_t at = begin + (version == 1 ? Padded(name) + Padded(type) + Padded(space) : name + type + space);
    if (at > message.size()) return;
    value_ = std::string(message.substr(at));
    is_found_ = true;
  }

  const ReadableFile& file_;
  const uint64_t base_;
  const std::string name_;
  std::vector<Part> parts_;
  bool is_old_ = true, is_found_ = false, is_damaged_ = false;
  size_t message_head_ = 0;
  std::string value_;
};

}  // namespace

absl::StatusOr<std::string> ReadRawHdf5Attribute(const ReadableFile& file, int64_t base, int64_t address,
                                                 const std::string& name) {
  return HeaderReader(file, base, name).Find(static_cast<uint64_t>(address));
}

absl::Status CheckHdf5Header(const ReadableFile& file, int64_t base, int64_t address) {
  return HeaderReader(file, base, "").Walk(static_cast<uint64_t>(address));
}

}  // namespace distill
