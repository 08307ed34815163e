// HDF5 files for people: their trials, which are the groups that hold data sets.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/data/options.h"

namespace distill {

// Whether the path is a file of the name *.hdf5 or *.h5, or a folder that holds such files, and of the split no files
// of rows. InvalidArgument: it holds both.
[[nodiscard]] absl::StatusOr<bool> HasRecordings(const std::string& path, const std::string& split);

// Prints, a line a file, its trials and what data sets they have; then all of them.
[[nodiscard]] absl::Status CountTrials(const std::string& path, const DataOptions& options);

// Prints the first trials: type, shape, chunks and filters of their data sets, and their attributes.
[[nodiscard]] absl::Status PrintTrials(const std::string& path, const DataOptions& options);

// Reads every chunk of every data set, and names those that are damaged. DataLoss where there are any.
[[nodiscard]] absl::Status VerifyTrials(const std::string& path, const DataOptions& options);

// Prints how long trials are: the first dimension of options.dataset, or of their data set of the most dimensions; and
// how much of a batch is padding.
[[nodiscard]] absl::Status PrintTrialStats(const std::string& path, const DataOptions& options);

}  // namespace distill
