// The trained model at the end of a run: a full disk costs time, and not the model.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace distill {

// Whether an error of saving is the disk's, which may have space again later, and not that of a lost rank or of a model
// that cannot be written at all.
bool IsOfDisk(const absl::Status& error);

// PublishFiles (checkpoint.h) into `output_dir`. Where the disk's error keeps it from being written, it goes into a
// folder of this run in DISTILL_FALLBACK_DIR of the environment, with a warning; where that fails too, or is not set,
// both are tried again every 5 s until `retry` is over. Cancelled: `gives_up` was true after a try that failed.
[[nodiscard]] absl::Status PublishWithRetries(const std::string& output_dir, absl::Duration retry,
                                              const std::function<absl::Status(const std::string& folder)>& write,
                                              const std::function<bool()>& gives_up);

}  // namespace distill
