#include "libdistill/config/option_names.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "libdistill/core/home.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr char kNull[] = "null";  // YAML's: leaves the default

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

struct KnownName {
  std::string name;
  const FieldDescription* field;
  const FieldAlias* alias;  // null: its own name
};

std::vector<KnownName> KnownNames(const Description& description) {
  std::vector<KnownName> known;
  for (const FieldDescription& field : description.fields()) {
    if (field.is_in_code_only) continue;
    known.push_back({field.name, &field, nullptr});
    for (const FieldAlias& alias : field.aliases) known.push_back({alias.name, &field, &alias});
  }
  return known;
}

const char* DashesOf(NameKind kind) { return kind == NameKind::kOption ? "--" : ""; }

bool IsFlatMap(const Description& description, absl::string_view name) {
  for (const ConfigSection& section : description.sections()) {
    if (section.name == name) return true;
  }
  return std::any_of(description.fields().begin(), description.fields().end(),
                     [&](const auto& field) { return absl::StartsWith(field.name, absl::StrCat(name, ".")); });
}

// "dataset.split" -> "dataset_split", "training.seed" -> "seed"; other names as they are.
std::string FlatName(const Description& description, absl::string_view name) {
  for (const ConfigSection& section : description.sections()) {
    if (!absl::StartsWith(name, absl::StrCat(section.name, "."))) continue;
    const absl::string_view key = name.substr(section.name.size() + 1);
    for (const auto& [theirs, ours] : section.renamed) {
      if (theirs == key) return ours;
    }
    return std::string(key);
  }
  return std::string(name);
}

// The names that could have been meant, as the user would write them there.
std::vector<std::string> NamesLike(const Description& description, absl::string_view name) {
  std::vector<std::string> names;
  for (const KnownName& known : KnownNames(description)) names.push_back(known.name);
  for (const ConfigSection& section : description.sections()) {
    names.push_back(section.name);
    if (absl::StartsWith(name, absl::StrCat(section.name, "."))) {
      for (const auto& renamed : section.renamed) names.push_back(renamed.first);
    }
  }
  return names;
}

absl::Status UnknownName(const Description& description, NameKind kind, absl::string_view name) {
  const absl::string_view dashes = DashesOf(kind);
  const std::string flat = FlatName(description, name);
  const absl::string_view key = flat == name ? name : name.substr(name.find('.') + 1);
  const std::string place = flat == name ? "" : absl::StrCat(name.substr(0, name.find('.')), ": ");
  const std::string unknown =
      absl::StrCat(place, "unknown ", kind == NameKind::kOption ? "option" : "key", " '", dashes, key, "'; ");
  for (const FieldDescription& field : description.fields()) {
    if (std::find(field.similar.begin(), field.similar.end(), flat) == field.similar.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(unknown, "here it is '", dashes, field.name, "' (--help says what that takes)"));
  }
  const std::vector<std::string> known = NamesLike(description, name);
  const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return EditDistance(key, a) < EditDistance(key, b);
  });
  // Further away than a slip of the hand it would mislead.
  const bool is_near =
      nearest != known.end() && EditDistance(key, *nearest) <= std::max<size_t>(1, (key.size() + dashes.size()) / 3);
  return absl::InvalidArgumentError(absl::StrCat(
      unknown, is_near ? absl::StrCat("did you mean '", dashes, *nearest, "'?") : "--help lists all options"));
}

absl::StatusOr<std::string> OwnValue(NameKind kind, const FieldAlias& alias, const std::string& value) {
  std::vector<std::string> words;
  for (const auto& [theirs, ours] : alias.values) {
    if (absl::EqualsIgnoreCase(theirs, value)) return ours;
    words.push_back(theirs);
  }
  if (words.empty() || value == kNull) return value;
  return absl::InvalidArgumentError(
      absl::StrCat(DashesOf(kind), alias.name, ": must be one of ", absl::StrJoin(words, ", "), ", not '", value, "'"));
}

absl::StatusOr<MeantOption> MeantByForeign(NameKind kind, const ForeignName& foreign, const std::string& value) {
  if (value == kNull) return MeantOption{};
  // What is refused whatever its value is shown without it: it may be a token, and logs keep what is shown.
  const bool is_shown = !value.empty() && (foreign.is_noted || !foreign.values.empty());
  const std::string said = is_shown ? absl::StrCat(foreign.name, ": ", value) : foreign.name;
  if (foreign.is_noted) return MeantOption{.note = absl::StrCat(said, ": ", foreign.reason)};
  for (const std::string& accepted : foreign.values) {
    if (absl::EqualsIgnoreCase(accepted, value)) return MeantOption{};
  }
  std::vector<std::string> words = foreign.values;
  words.erase(std::remove(words.begin(), words.end(), ""), words.end());
  const std::string only =
      words.empty() ? "" : absl::StrCat(" (only ", absl::StrJoin(words, ", "), " asks for what happens here)");
  return absl::InvalidArgumentError(absl::StrCat(DashesOf(kind), said, ": ", foreign.reason, only));
}

}  // namespace

absl::StatusOr<MeantOption> FindOption(const Description& description, NameKind kind, absl::string_view name,
                                       const std::string& value) {
  const std::string flat = FlatName(description, name);
  for (const KnownName& known : KnownNames(description)) {
    if (known.name != flat) continue;
    MeantOption meant{.field = known.field, .value = value};
    if (known.alias == nullptr) return meant;
    DISTILL_ASSIGN_OR_RETURN(meant.value, OwnValue(kind, *known.alias, value));
    return meant;
  }
  for (const ForeignName& foreign : description.foreign()) {
    if (foreign.name == flat) return MeantByForeign(kind, foreign, value);
  }
  if (IsFlatMap(description, flat)) return MeantOption{.value = value, .is_map = true};
  return UnknownName(description, kind, name);
}

absl::Status SetOption(const FieldDescription& field, const std::string& text) {
  for (const auto& [word, reason] : field.refused_words) {
    if (absl::EqualsIgnoreCase(word, text) || absl::StrContains(absl::AsciiStrToLower(text), word)) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "': ", reason));
    }
  }
  const std::string value = field.is_path ? ExpandHome(text) : text;
  for (const FieldPlace& place : field.places) {
    if (place.parse(value)) continue;
    return absl::InvalidArgumentError(
        field.choices.empty()
            ? absl::StrCat("expected ", field.kind.words, ", not '", text, "'")
            : absl::StrCat("must be one of ", absl::StrJoin(field.choices, ", "), ", not '", text, "'"));
  }
  return CheckField(field);
}

bool IsMapName(const Description& description, absl::string_view name) {
  return IsFlatMap(description, FlatName(description, name));
}

bool StandsAlone(const Description& description, absl::string_view name, const std::optional<std::string>& next,
                 bool takes_arguments) {
  const auto meant = FindOption(description, NameKind::kOption, name, "true");
  const bool is_alone = !next.has_value() || absl::StartsWith(*next, "--");
  // Of another tool's name, or of none, nobody knows whether it takes a value; another option never is one.
  if (!meant.ok() || meant->field == nullptr) return is_alone && !(meant.ok() && meant->is_map);
  const FieldDescription& field = *meant->field;
  const bool is_alias_of_values = std::any_of(field.aliases.begin(), field.aliases.end(), [&](const FieldAlias& alias) {
    return alias.name == name && !alias.values.empty();  // "true" was found among them
  });
  const bool is_boolean = absl::string_view(field.kind.type) == "true|false";
  const auto is_choice = [&](absl::string_view value) {
    return std::find(field.choices.begin(), field.choices.end(), value) != field.choices.end();
  };
  if (!is_boolean && !is_alias_of_values && !is_choice("true")) return false;
  if (is_alone || next->empty()) return true;
  const std::string lower = absl::AsciiStrToLower(*next);
  return takes_arguments && lower != "true" && lower != "false" && !is_choice(*next);
}

}  // namespace distill
