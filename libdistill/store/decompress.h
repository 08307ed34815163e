// Compressed files, read as what they hold.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "libdistill/store/byte_stream.h"

namespace distill {

enum class Compression { kNone, kGzip, kZstd };

// By the file's first bytes.
Compression CompressionOf(absl::string_view first_bytes);

// What `bytes` hold: several members (gzip) or frames (zstd) one after the other are read as one. `path`: for messages.
// Reading fails with DataLoss where they are damaged, or end in the middle.
std::unique_ptr<ByteStream> Decompress(std::unique_ptr<ByteStream> bytes, Compression compression, std::string path);

}  // namespace distill
