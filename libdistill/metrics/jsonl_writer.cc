#include "libdistill/metrics/jsonl_writer.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

std::optional<int64_t> StepOf(absl::string_view line) {
  const auto record = nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) return std::nullopt;
  return record["step"].get<int64_t>();
}

}  // namespace

absl::StatusOr<std::unique_ptr<JsonlWriter>> JsonlWriter::Open(const std::string& path, int64_t done_steps) {
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<RecordFile> file, RecordFile::Open(path, done_steps, StepOf));
  return std::unique_ptr<JsonlWriter>(new JsonlWriter(std::move(file)));
}

absl::Status JsonlWriter::Write(int64_t step, const NamedValues& values) {
  nlohmann::ordered_json record;
  record["step"] = step;
  for (const auto& [name, value] : values) record[name] = value;
  const std::string text = record.dump();
  const std::string begin = absl::StrCat(absl::StripSuffix(text, "}"), ",");
  // Two records of the same values, made at different times, are one.
  const double now = static_cast<double>(absl::ToUnixMicros(absl::Now())) / 1e6;
  file_->Append(absl::StrFormat("%s\"time\":%.3f}\n", begin, now), begin);
  return absl::OkStatus();
}

}  // namespace distill
