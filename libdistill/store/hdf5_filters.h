// What HDF5's filters did to a chunk, undone.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

enum class Hdf5Filter { kGzip, kShuffle, kFletcher32 };

// The chunk of `chunk_bytes` out of the bytes that the file has of it. `filters` in the order of writing; of each whose
// bit is set in `skipped` the file says that it was left out. DataLoss: the bytes do not make a chunk of that size, or
// have another checksum.
[[nodiscard]] absl::StatusOr<std::string> UndoFilters(const std::vector<Hdf5Filter>& filters, uint32_t skipped,
                                                      int64_t element_bytes, int64_t chunk_bytes, std::string bytes);

}  // namespace distill
