// What a zip file has and where, of files that store their entries as they are, without compression: what torch.save
// writes since torch 1.6 (APPNOTE.TXT of PKWARE, 4.3; zip64 too).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/store/file_bytes.h"

namespace distill {

struct ZipEntry {
  int64_t offset = 0;  // of its bytes, in the file
  int64_t size = 0;
};

// By name. DataLoss: truncated, damaged, an entry twice, or entries that overlap one another. InvalidArgument: entries
// are compressed or encrypted. Their checksums are not compared.
[[nodiscard]] absl::StatusOr<std::map<std::string, ZipEntry>> ReadZipDirectory(const FileBytes& file);

}  // namespace distill
