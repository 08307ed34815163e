// Float sequences with targets of another length (speech, brain signals), out of a safetensors file: the samples stay
// in the file, which is mapped, and are read when they are asked for (docs/formats.md, "Sequences").
//
//   DISTILL_ASSIGN_OR_RETURN(auto data, OpenSequenceDataset("sessions.safetensors"));
//   Batches<Batch> batches(std::move(sharder), [](auto rows) { return StackRows(rows, {{"features"}, {"targets"}}); });
//
// In memory the same samples are MakeDataset's, with "features" as their length.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"

namespace distill {

// Samples have "features" (float32 [T, F]) and "targets" (int32 [U]), views of the file's bytes; their length is T. The
// fingerprint covers lengths, targets, and of each sequence its first and last frame: enough to tell two files apart,
// without reading one through. NotFound: no such file. DataLoss: a damaged one. InvalidArgument: a tensor that is
// missing or of another type or not aligned to it, or lengths that do not add up to what is there.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Dataset>> OpenSequenceDataset(const std::string& path);

}  // namespace distill
