// Collects what options structs say of themselves (core/describe.h): the V of their Describe.
//
//   DISTILL_RETURN_IF_ERROR(CheckOptions(options));           // ranges, and what fits together; names the field
//   RequireSameOnAllRanks(comm, ValuesOf(options));           // name and value of every field
//   Description description = DescriptionOf(options);         // for config/: sets the fields of `options` by name
//
// Structs are composed by calling one's Describe out of another's. A name that several of them describe is one option,
// which sets all their fields.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/field_text.h"

namespace distill {

// One place in a struct.
struct FieldPlace {
  std::function<std::string()> text;
  std::function<bool(const std::string&)> parse;
  std::function<std::optional<double>()> number;  // what FieldLimits bound, where there is such a thing
};

// Another name of a field. `values`: what the other tool's values are here; empty: the same.
struct FieldAlias {
  std::string name;
  std::vector<std::pair<std::string, std::string>> values = {};
};

struct FieldDescription {
  std::string name, group, help;
  FieldKind kind = {};
  FieldLimits limits = {};
  std::vector<std::string> choices = {};
  std::string initial = {};  // its value when it was described
  bool is_path = false;
  bool takes_list = false;  // in a config file: what it names then is joined with commas
  bool is_of_any_store = false;
  bool is_optional = false;               // its text may be "", for none
  bool is_repeated = false;               // on a command line each further value adds to the ones before
  bool is_in_code_only = false;           // compared and checked, but not to be set by name
  std::vector<FieldAlias> aliases = {};   // mean the same
  std::vector<std::string> similar = {};  // for the hint in an error
  std::vector<std::pair<std::string, std::string>> refused_words = {};  // and what to do instead
  std::vector<FieldPlace> places = {};
};

// A name of another tool that is no field here.
struct ForeignName {
  std::string name;
  std::vector<std::string> values = {};  // those that ask for what happens anyway; all where `is_noted`
  std::string reason = {};               // why other values are refused, or what is noted
  bool is_noted = false;
};

// A map in a config file: `renamed` are keys that are called otherwise there; the other keys are flat names.
struct ConfigSection {
  std::string name;
  std::vector<std::pair<std::string, std::string>> renamed = {};
};

class FieldEntry;
using FieldValues = std::vector<std::pair<std::string, std::string>>;

class Description {
 public:
  // --help's group of the fields that follow.
  void Group(const char* name) { group_ = name; }
  // What is described must outlive this. A "." in a name makes it a key of a map: "lr_scheduler_kwargs.power".
  template <class T>
  FieldEntry Field(const char* name, T& value, const char* help);
  template <class T>
  FieldEntry Field(const char* name, T& value, FieldLimits limits, const char* help);
  // A name of another tool whose `values` ask for what happens here anyway; others are refused for `reason`.
  void Accept(const char* name, std::vector<std::string> values, const char* reason);
  // One that changes nothing here: accepted, and the user is told so by `note`.
  void Note(const char* name, const char* note);
  // Names that are refused, whatever their value.
  void Refuse(std::initializer_list<const char*> names, const char* reason);
  // Config files may hold the map `name`, of flat names, some of which are called otherwise there.
  void Section(const char* name, std::vector<std::pair<std::string, std::string>> renamed = {});
  // What no single field can tell; asked when all are set.
  void Together(std::function<absl::Status()> check) { together_.push_back(std::move(check)); }

  // Takes over what `other` was told; no field may be in both.
  void Join(const Description& other);

  const std::vector<FieldDescription>& fields() const { return fields_; }
  const std::vector<ForeignName>& foreign() const { return foreign_; }
  const std::vector<ConfigSection>& sections() const { return sections_; }
  // Null where there is none. `name` is the field's own.
  const FieldDescription* Find(absl::string_view name) const;
  // InvalidArgument names the first field out of its limits or not the same in all structs, or what does not fit
  // together.
  absl::Status Check() const;
  FieldValues Values(bool with_code_only = true) const;

 private:
  friend class FieldEntry;
  size_t Add(FieldDescription field);

  const char* group_ = "";
  std::vector<FieldDescription> fields_;
  std::vector<ForeignName> foreign_;
  std::vector<ConfigSection> sections_;
  std::vector<std::function<absl::Status()>> together_;
};

// What more can be said of a field. Each returns itself.
class FieldEntry {
 public:
  FieldEntry(Description& description, size_t index) : description_(description), index_(index) {}
  // Names of other tools that mean the same.
  template <class... Names>
  FieldEntry& Alias(Names... names) {
    (field().aliases.push_back({names}), ...);
    return *this;
  }
  // One whose values are called otherwise; a value that is not listed is refused.
  FieldEntry& AliasOf(const char* name, std::vector<std::pair<std::string, std::string>> values) {
    field().aliases.push_back({name, std::move(values)});
    return *this;
  }
  // Names that mean something near: refused, with this field's name.
  template <class... Names>
  FieldEntry& Similar(Names... names) {
    (field().similar.push_back(names), ...);
    return *this;
  }
  FieldEntry& Path() {
    field().is_path = true;
    return *this;
  }
  // Of a file or folder that may also be s3://.
  // A list of a config file will do, too: "a, b".
  FieldEntry& TakesList() {
    field().takes_list = true;
    return *this;
  }
  FieldEntry& PathOfAnyStore() {
    field().is_of_any_store = true;
    return Path();
  }
  FieldEntry& InCodeOnly() {
    field().is_in_code_only = true;
    return *this;
  }
  // A word that is refused with what to do instead.
  FieldEntry& RefuseWord(const char* word, const char* reason) {
    field().refused_words.emplace_back(word, reason);
    return *this;
  }

 private:
  FieldDescription& field() { return description_.fields_[index_]; }
  Description& description_;
  size_t index_;
};

// "at least 0 and below 1"; "" where there is no limit.
std::string LimitsText(const FieldLimits& limits);

// InvalidArgument says what a value must be and is, or how structs differ in it, without the name.
absl::Status CheckField(const FieldDescription& field);

template <class T>
FieldEntry Description::Field(const char* name, T& value, FieldLimits limits, const char* help) {
  FieldDescription field{name, group_, help, KindOfField(&value), limits};
  if constexpr (NamedEnum<T>) {
    for (const auto& each : NamesOf(T())) field.choices.push_back(each.name);
  } else if constexpr (requires { NamesOf(typename T::value_type()); }) {
    for (const auto& each : NamesOf(typename T::value_type())) field.choices.push_back(each.name);
  }
  field.is_optional = requires { value.reset(); };
  field.is_repeated = std::is_same_v<T, std::vector<std::string>>;
  FieldPlace place;
  place.text = [&value] { return FieldText(value); };
  place.parse = [&value](const std::string& text) { return ParseField(text, value); };
  place.number = [&value]() -> std::optional<double> {
    if constexpr (std::is_same_v<T, absl::Duration>) {
      return absl::ToDoubleSeconds(value);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<double>(value);
    } else if constexpr (std::is_same_v<T, std::optional<double>> || std::is_same_v<T, std::optional<int64_t>>) {
      return value.has_value() ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
    } else {
      return std::nullopt;
    }
  };
  field.places.push_back(std::move(place));
  return FieldEntry(*this, Add(std::move(field)));
}

template <class T>
FieldEntry Description::Field(const char* name, T& value, const char* help) {
  return Field(name, value, FieldLimits(), help);
}

// `options` must outlive it.
template <class T>
Description DescriptionOf(T& options) {
  Description description;
  Describe(description, options);
  return description;
}

template <class T>
[[nodiscard]] absl::Status CheckOptions(T options) {
  return DescriptionOf(options).Check();
}

template <class T>
FieldValues ValuesOf(T options) {
  return DescriptionOf(options).Values();
}

}  // namespace distill
