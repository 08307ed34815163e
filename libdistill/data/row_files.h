// The files of rows that a path stands for.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

// Whether a name ends as those of files of rows do (below).
bool IsRowFileName(absl::string_view name);

// A file is itself. Of a folder, of any store, those whose names begin with `split` and end as files of rows do
// (.jsonl, .parquet, .csv, .tsv; .jsonl, .csv and .tsv also with .gz or .zst), in order of name; where it has none,
// those of the folder data/ in it, as data sets of the hub have them. NotFound: no such path, or no such file in it,
// with what is there. InvalidArgument: files of several formats, of which each may be a copy of the others, but for
// snapshots of the hub (store/hub_cache.h), of which Parquet files come first; a folder that the datasets library
// saved, or that holds files of formats that are not read.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> FindRowFiles(const std::string& path, const std::string& split);

}  // namespace distill
