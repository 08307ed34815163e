// What one watches of a run, as observers: progress on stdout, metrics.jsonl, metrics.csv, TensorBoard's curves and
// a picture of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/metrics/observer.h"
#include "libdistill/metrics/report_to.h"

namespace distill {

// Those that `options` asks for. One process of a run has them (rank 0). `done_steps` above 0 continues the files of an
// interrupted run: their records of later steps are dropped. PermissionDenied: a folder that cannot be made.
[[nodiscard]] absl::StatusOr<std::vector<std::shared_ptr<Observer>>> OpenReports(const LogOptions& options,
                                                                                 int64_t done_steps,
                                                                                 int64_t total_steps);

}  // namespace distill
