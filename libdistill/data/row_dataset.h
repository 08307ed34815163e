// Rows of files of any format as samples: the one call for a program of your own.
//
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<Dataset> rows,
//                            OpenRowDataset("s3://bucket/rows", [](const JsonValue& row) -> absl::StatusOr<Sample> {
//                              DISTILL_ASSIGN_OR_RETURN(const std::string text, TextOf(row, "text"));
//                              return MySample(text);
//                            }, {.index_folder = "/var/cache/lines"}));
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/data/jsonl_dataset.h"
#include "libdistill/data/streamed_dataset.h"

namespace distill {

// With random access where the format can: OpenJsonlDataset, where all files are uncompressed JSON Lines. Else
// OpenStreamedDataset, whose samples are shuffled in windows (`window()` of the data set is not 0). The errors are
// theirs.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Dataset>> OpenRowDataset(const std::string& path, MakeSample make,
                                                                      const RowDatasetOptions& options = {});

}  // namespace distill
