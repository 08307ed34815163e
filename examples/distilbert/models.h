// The models of a run: the teacher, and the student that is made out of it or loaded.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "examples/distilbert/options.h"
#include "libdistill/nn/encoder.h"
#include "libdistill/run/run.h"

namespace distill {

struct DistilBertModels {
  std::shared_ptr<Encoder> teacher;  // null: masked language modelling alone
  std::shared_ptr<Encoder> student;  // float32
};

// On the run's device, the teacher in the type that passes use. Errors name the option.
[[nodiscard]] absl::StatusOr<DistilBertModels> LoadModels(const DistilBertOptions& options, const RunContext& run);

}  // namespace distill
