#include "libdistill/store/hdf5_filters.h"

#include <zlib.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// `most` bytes of room, so that no crafted chunk fills the memory.
absl::StatusOr<std::string> Inflate(absl::string_view bytes, int64_t most) {
  std::string out(static_cast<size_t>(most), '\0');
  auto size = static_cast<uLongf>(most);
  const int code = uncompress(reinterpret_cast<Bytef*>(&out[0]), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                              static_cast<uLong>(bytes.size()));
  if (code == Z_BUF_ERROR) return absl::DataLossError(absl::StrCat("a gzip chunk is not of ", most, " bytes"));
  if (code != Z_OK) return absl::DataLossError("a gzip chunk is damaged");
  out.resize(size);
  return out;
}

// Byte k of all elements lies before byte k + 1 of all of them; what is left of an incomplete element is at the end.
std::string Unshuffle(absl::string_view bytes, size_t width) {
  const size_t elements = bytes.size() / width;
  std::string out(bytes);
  for (size_t k = 0; k < width; ++k) {
    const char* from = bytes.data() + k * elements;
    char* to = &out[0] + k;
    for (size_t i = 0; i < elements; ++i) to[i * width] = from[i];
  }
  return out;
}

// HDF5's variant of Fletcher's sum: 16-bit words, big-endian, an odd byte as the upper half of a last one.
uint32_t Fletcher32(absl::string_view bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t words = bytes.size() / 2;
  uint32_t sum1 = 0, sum2 = 0;
  while (words > 0) {
    size_t part = words > 360 ? 360 : words;  // as many as cannot overflow
    words -= part;
    for (; part > 0; --part, data += 2) {
      sum1 += static_cast<uint32_t>(data[0] << 8 | data[1]);
      sum2 += sum1;
    }
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  }
  if (bytes.size() % 2 != 0) {
    sum1 += static_cast<uint32_t>(*data << 8);
    sum2 += sum1;
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  }
  sum1 = (sum1 & 0xffff) + (sum1 >> 16);
  sum2 = (sum2 & 0xffff) + (sum2 >> 16);
  return sum2 << 16 | sum1;
}

absl::Status TakeChecksum(std::string& bytes) {
  if (bytes.size() < 4) return absl::DataLossError("a chunk is too short for its checksum");
  uint32_t stored = 0;
  for (size_t i = 0; i < 4; ++i) stored |= uint32_t{static_cast<uint8_t>(bytes[bytes.size() - 4 + i])} << (8 * i);
  bytes.resize(bytes.size() - 4);
  const uint32_t sum = Fletcher32(bytes);
  // Before HDF5 1.6.3 the sum was written with the bytes of each half the other way round on some machines.
  const uint32_t turned = (sum & 0x00ff00ff) << 8 | (sum & 0xff00ff00) >> 8;
  if (stored == sum || stored == turned) return absl::OkStatus();
  return absl::DataLossError("a chunk is damaged: its bytes have another fletcher32 checksum");
}

}  // namespace

absl::StatusOr<std::string> UndoFilters(const std::vector<Hdf5Filter>& filters, uint32_t skipped, int64_t element_bytes,
                                        int64_t chunk_bytes, std::string bytes) {
  int64_t most = chunk_bytes;
  for (const Hdf5Filter filter : filters) most += filter == Hdf5Filter::kFletcher32 ? 4 : 0;
  for (size_t i = filters.size(); i > 0; --i) {
    if ((skipped >> (i - 1) & 1) != 0) continue;
    switch (filters[i - 1]) {
      case Hdf5Filter::kGzip: {
        DISTILL_ASSIGN_OR_RETURN(bytes, Inflate(bytes, most));
        break;
      }
      case Hdf5Filter::kShuffle:
        if (element_bytes > 1) bytes = Unshuffle(bytes, static_cast<size_t>(element_bytes));
        break;
      case Hdf5Filter::kFletcher32:
        DISTILL_RETURN_IF_ERROR(TakeChecksum(bytes));
        break;
    }
  }
  if (static_cast<int64_t>(bytes.size()) == chunk_bytes) return bytes;
  return absl::DataLossError(absl::StrCat("a chunk has ", bytes.size(), " bytes in place of ", chunk_bytes));
}

}  // namespace distill
