// The values of options as text, and back: the same text in files, on command lines and between ranks.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "libdistill/core/describe.h"

namespace distill {

// The shortest text that reads back to the same number: two that differ never look alike.
std::string NumberText(double value);

// False: not of the kind; the value is then as it was or any other. A number is finite. Of an optional value, "" and
// "null" mean that there is none. A duration is a number of seconds.
bool ParseField(const std::string& text, std::string& value);
bool ParseField(const std::string& text, bool& value);
bool ParseField(const std::string& text, double& value);
bool ParseField(const std::string& text, absl::Duration& value);

inline std::string FieldText(const std::string& value) { return value; }
inline std::string FieldText(bool value) { return value ? "true" : "false"; }
inline std::string FieldText(double value) { return NumberText(value); }
inline std::string FieldText(absl::Duration value) { return NumberText(absl::ToDoubleSeconds(value)); }

// What messages ("expected a number") and --help (NUMBER) call the kind of a value.
struct FieldKind {
  const char* words;
  const char* type;
};
constexpr FieldKind KindOfField(const std::string*) { return {"text", "TEXT"}; }
constexpr FieldKind KindOfField(const bool*) { return {"true or false", "true|false"}; }
constexpr FieldKind KindOfField(const double*) { return {"a number", "NUMBER"}; }
constexpr FieldKind KindOfField(const absl::Duration*) { return {"a number", "NUMBER"}; }

template <class T>
concept WholeNumber = std::integral<T> && !std::is_same_v<T, bool>;

template <WholeNumber T>
bool ParseField(const std::string& text, T& value) {
  return absl::SimpleAtoi(text, &value);
}
template <WholeNumber T>
std::string FieldText(T value) {
  return absl::StrCat(value);
}
template <WholeNumber T>
constexpr FieldKind KindOfField(const T*) {
  return {"a whole number", "INT"};
}

template <class E>
concept NamedEnum = requires(E value) {
  NamesOf(value);
};

template <NamedEnum E>
bool ParseField(const std::string& text, E& value) {
  for (const auto& [name, named] : NamesOf(E())) {
    if (absl::AsciiStrToLower(text) != name) continue;
    value = named;
    return true;
  }
  return false;
}
template <NamedEnum E>
std::string FieldText(E value) {
  for (const auto& [name, named] : NamesOf(E())) {
    if (named == value) return name;
  }
  return absl::StrCat("the value ", static_cast<int64_t>(value));
}
template <NamedEnum E>
constexpr FieldKind KindOfField(const E*) {
  return {"a word", "WORD"};
}

template <class T>
bool ParseField(const std::string& text, std::optional<T>& value) {
  value.reset();
  return text.empty() || text == "null" || ParseField(text, value.emplace());
}
template <class T>
std::string FieldText(const std::optional<T>& value) {
  return value.has_value() ? FieldText(*value) : "";
}
template <class T>
constexpr FieldKind KindOfField(const std::optional<T>*) {
  return KindOfField(static_cast<const T*>(nullptr));
}

// Of an option that may be given again and again: each time adds a text.
inline bool ParseField(const std::string& text, std::vector<std::string>& value) {
  value.push_back(text);
  return true;
}
inline std::string FieldText(const std::vector<std::string>& value) { return absl::StrJoin(value, "\n"); }
constexpr FieldKind KindOfField(const std::vector<std::string>*) { return {"text", "TEXT"}; }

// "a,b" or "[a, b]"; "none" has no element, "all" each one once.
template <NamedEnum E>
bool ParseField(const std::string& text, std::vector<E>& value) {
  value.clear();
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  if (rest.size() >= 2 && rest.front() == '[' && rest.back() == ']') rest = rest.substr(1, rest.size() - 2);
  if (rest == "none" || rest.empty()) return true;
  if (rest == "all") {
    for (const auto& each : NamesOf(E())) value.push_back(each.value);
    return true;
  }
  for (const absl::string_view part : absl::StrSplit(rest, ',')) {
    if (!ParseField(std::string(absl::StripAsciiWhitespace(part)), value.emplace_back())) return false;
  }
  return true;
}
template <NamedEnum E>
std::string FieldText(const std::vector<E>& value) {
  if (value.empty()) return "none";
  return absl::StrJoin(value, ",", [](std::string* out, E each) { out->append(FieldText(each)); });
}
template <NamedEnum E>
constexpr FieldKind KindOfField(const std::vector<E>*) {
  return {"a list", "LIST"};
}

}  // namespace distill
