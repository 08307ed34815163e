// metrics.jsonl: one JSON object a record, "step" first and "time" last (docs/formats.md, "Metrics").
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libdistill/metrics/record_file.h"
#include "libdistill/metrics/record_writer.h"

namespace distill {

class JsonlWriter : public RecordWriter {
 public:
  // With done_steps above 0 the file's records up to that step stay and the others go; else the file starts anew.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<JsonlWriter>> Open(const std::string& path, int64_t done_steps);

  // Numbers read back to the same double; what is not finite becomes null. `time` is when this is called.
  absl::Status Write(int64_t step, const NamedValues& values) override;

 private:
  using RecordWriter::RecordWriter;
};

}  // namespace distill
