#include "libdistill/core/description.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "libdistill/core/check.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::Status CheckNumber(const FieldLimits& limits, double value) {
  const bool high_enough = limits.excludes_low ? value > limits.low : value >= limits.low;
  const bool low_enough = limits.excludes_high ? value < limits.high : value <= limits.high;
  const bool is_bounded = std::isfinite(limits.low) || std::isfinite(limits.high);
  if (high_enough && low_enough && (std::isfinite(value) || !is_bounded)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("must be ", LimitsText(limits), ", not ", NumberText(value)));
}

absl::Status CheckText(const FieldDescription& field, const std::string& text) {
  const bool is_list = absl::string_view(field.kind.type) == "LIST";
  if (field.is_optional && text.empty()) return absl::OkStatus();
  if (!field.choices.empty() && !is_list &&
      std::find(field.choices.begin(), field.choices.end(), text) == field.choices.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be one of ", absl::StrJoin(field.choices, ", "), ", not '", text, "'"));
  }
  if (field.is_path && !field.is_of_any_store && absl::StartsWith(text, "s3://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("s3:// paths are not supported here yet: ", text, "; copy it to a local folder"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string LimitsText(const FieldLimits& limits) {
  std::vector<std::string> bounds;
  if (std::isfinite(limits.low)) {
    bounds.push_back(absl::StrCat(limits.excludes_low ? "above " : "at least ", NumberText(limits.low)));
  }
  if (std::isfinite(limits.high)) {
    bounds.push_back(absl::StrCat(limits.excludes_high ? "below " : "at most ", NumberText(limits.high)));
  }
  return absl::StrJoin(bounds, " and ");
}

absl::Status CheckField(const FieldDescription& field) {
  for (const FieldPlace& place : field.places) {
    if (const std::optional<double> number = place.number(); number.has_value()) {
      DISTILL_RETURN_IF_ERROR(CheckNumber(field.limits, *number));
    }
    DISTILL_RETURN_IF_ERROR(CheckText(field, place.text()));
    if (const std::string first = field.places.front().text(); place.text() != first) {
      return absl::InvalidArgumentError(
          absl::StrCat("is ", first, " in one struct and ", place.text(), " in another: give both the same"));
    }
  }
  return absl::OkStatus();
}

size_t Description::Add(FieldDescription field) {
  field.initial = field.places.front().text();
  const auto same = std::find_if(fields_.begin(), fields_.end(), [&](const auto& f) { return f.name == field.name; });
  if (same == fields_.end()) {
    fields_.push_back(std::move(field));
    return fields_.size() - 1;
  }
  same->places.push_back(std::move(field.places.front()));
  return same - fields_.begin();
}

void Description::Accept(const char* name, std::vector<std::string> values, const char* reason) {
  foreign_.push_back({name, std::move(values), reason});
}

void Description::Note(const char* name, const char* note) {
  foreign_.push_back({.name = name, .reason = note, .is_noted = true});
}

void Description::Refuse(std::initializer_list<const char*> names, const char* reason) {
  for (const char* name : names) foreign_.push_back({.name = name, .reason = reason});
}

void Description::Section(const char* name, std::vector<std::pair<std::string, std::string>> renamed) {
  sections_.push_back({name, std::move(renamed)});
}

void Description::Join(const Description& other) {
  for (const FieldDescription& field : other.fields_) {
    DISTILL_CHECK(Find(field.name) == nullptr, absl::StrCat(field.name, " is in both"));
    fields_.push_back(field);
  }
  foreign_.insert(foreign_.end(), other.foreign_.begin(), other.foreign_.end());
  sections_.insert(sections_.end(), other.sections_.begin(), other.sections_.end());
  together_.insert(together_.end(), other.together_.begin(), other.together_.end());
}

const FieldDescription* Description::Find(absl::string_view name) const {
  for (const FieldDescription& field : fields_) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

absl::Status Description::Check() const {
  for (const FieldDescription& field : fields_) DISTILL_RETURN_IF_ERROR(Annotate(CheckField(field), field.name));
  for (const auto& check : together_) DISTILL_RETURN_IF_ERROR(check());
  return absl::OkStatus();
}

FieldValues Description::Values(bool with_code_only) const {
  FieldValues values;
  for (const FieldDescription& field : fields_) {
    if (with_code_only || !field.is_in_code_only) values.emplace_back(field.name, field.places.front().text());
  }
  return values;
}

}  // namespace distill
