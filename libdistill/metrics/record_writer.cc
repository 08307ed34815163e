#include "libdistill/metrics/record_writer.h"

#include "absl/strings/str_cat.h"

namespace distill {

NamedValues RecordOf(const EvaluationRecord& record) {
  NamedValues values;
  for (const auto& [name, value] : record.metrics) values.emplace_back(absl::StrCat("eval_", name), value);
  values.emplace_back("epoch", record.epoch);
  return values;
}

}  // namespace distill
