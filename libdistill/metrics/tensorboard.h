// TensorBoard event files: TFRecord frames around events (docs/formats.md, "TensorBoard").
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/metrics/record_file.h"
#include "libdistill/metrics/record_writer.h"

namespace distill {

class TensorBoardWriter : public RecordWriter {
 public:
  // Makes `folder` and a new event file in it. done_steps above 0: TensorBoard forgets older files' later steps;
  // otherwise the event files of an earlier run are removed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TensorBoardWriter>> Open(const std::string& folder,
                                                                               int64_t done_steps);
  absl::Status Write(int64_t step, const NamedValues& scalars) override;
  // Curves of training are in one group, those of evaluations in another: train/loss, eval/loss.
  absl::Status OnLog(const StepRecord& record, TrainingControl&) override;
  absl::Status OnEvaluate(const EvaluationRecord& record, TrainingControl&) override;

 private:
  using RecordWriter::RecordWriter;
};

// CRC-32C (Castagnoli), as in RFC 3720, and TFRecord's masked form of it.
uint32_t Crc32c(absl::string_view bytes);
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace distill
