// What reading all of a file has shown, kept for the other processes of the host and for the next start: two lists of
// whole numbers, in a folder, under a hash of the file's path, size and version.
//
//   constexpr IndexKind kLines = {"DSTLIN01", ".lines", "the index of its lines"};
//   DISTILL_ASSIGN_OR_RETURN(const IndexLists lists, OpenIndex(file, kLines, {.folder = folder}, [&] { ... }));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/store/readable_file.h"

namespace distill {

struct IndexKind {
  char letters[9];     // that the file begins with, with the format's version
  const char* ending;  // of its name
  const char* what;    // for messages: "the index of its lines"
};

struct IndexPlace {
  std::string folder = "";   // local; made where it is missing; empty: the lists stay in memory
  std::string options = "";  // what the lists depend on beside the file
};

// Lists that were made, or are mapped.
struct IndexLists {
  std::shared_ptr<const void> owner;
  absl::Span<const uint64_t> first, second;
  uint64_t hash = 0;         // of both
  int64_t memory_bytes = 0;  // of this process; 0: they are mapped
};

struct MadeIndex {
  std::vector<uint64_t> first, second;
  bool is_whole = true;  // false: it was not made of all of the file, and is not kept
};

// Maps what is kept (docs/formats.md, "Indices"), or else calls `make` and keeps what that has made. Blocks, also while
// another process makes the same. What is damaged is made anew; where the folder cannot be written, a warning says so
// and the lists stay in memory. The errors are those of `make`.
[[nodiscard]] absl::StatusOr<IndexLists> OpenIndex(const ReadableFile& file, const IndexKind& kind,
                                                   const IndexPlace& place,
                                                   absl::FunctionRef<absl::StatusOr<MadeIndex>()> make);

}  // namespace distill
