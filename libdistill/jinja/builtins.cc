// How built-ins are called; the methods of dicts and lists, and the functions that a template calls by name.
#include "libdistill/jinja/builtins.h"

#include <ctime>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill::jinja {
namespace {

template <bool keys, bool values>
Result EntriesMethod(const Value& self, const Given&) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries) {
    if (keys && values) {
      DISTILL_ASSIGN_OR_RETURN(items.emplace_back(), MakeList({key, value}, /*is_tuple=*/true));
    } else {
      items.push_back(keys ? key : value);
    }
  }
  return MakeList(std::move(items));
}

Result GetMethod(const Value& self, const Given& given) {
  if (const Value* value = self.dict()->Find(*given[0])) return *value;
  return given[1] == nullptr ? Value::MakeNone() : *given[1];
}

Result CopyMethod(const Value& self, const Given&) { return MakeDict(self.dict()->entries); }

Result ListCount(const Value& self, const Given& given) {
  return Value::MakeCount(absl::c_count_if(self.list()->items, [&](const Value& v) { return Equal(v, *given[0]); }));
}

Result ListIndex(const Value& self, const Given& given) {
  const std::vector<Value>& items = self.list()->items;
  const auto found = absl::c_find_if(items, [&](const Value& v) { return Equal(v, *given[0]); });
  if (found == items.end()) return Error(absl::StrCat(ToRepr(*given[0]), " is not in the list"));
  return Value::MakeCount(found - items.begin());
}

constexpr int64_t kMaxRange = 100000;  // as jinja2's sandbox

Result RaiseException(const Value&, const Given& given) {
  return Error(absl::StrCat("the template refuses these messages: ", ToText(*given[0])));
}

Result Range(const Value&, const Given& given) {
  for (const Value* value : given.bound) {
    if (value != nullptr && !value->IsInteger()) return Error("range() needs integers");
  }
  const int64_t begin = given[1] == nullptr ? 0 : given[0]->integer();
  const int64_t end = given[1] == nullptr ? given[0]->integer() : given[1]->integer();
  const int64_t step = given[2] == nullptr ? 1 : given[2]->integer();
  if (step == 0) return Error("range() with a step of zero");
  std::vector<Value> items;
  // In 128 bits no border overflows.
  for (__int128 i = begin; step > 0 ? i < end : i > end; i += step) {
    if (items.size() >= kMaxRange) return Error(absl::StrCat("range() is longer than ", kMaxRange));
    items.emplace_back(static_cast<int64_t>(i));
  }
  return MakeList(std::move(items));
}

template <Dict::Kind kind>
Result DictFunction(const Value&, const Given& given) {
  const auto& [positional, named] = given.arguments;
  const Dict* source = positional.empty() ? nullptr : positional[0].dict();
  const size_t dicts = source == nullptr ? 0 : 1;
  if (positional.size() > dicts) return Error("dict() and namespace() take one dict, and names");
  std::vector<std::pair<Value, Value>> entries;
  if (source != nullptr) entries = source->entries;
  entries.insert(entries.end(), named.begin(), named.end());
  for (const auto& [key, value] : entries) {
    if (kind == Dict::Kind::kNamespace && key.IsString() && absl::StartsWith(*key.text(), "_")) {
      return Error(absl::StrCat("a namespace cannot hold '", *key.text(), "', which starts with an underscore"));
    }
  }
  DISTILL_ASSIGN_OR_RETURN(Value value, MakeDict(std::move(entries)));
  value.dict()->kind = kind;
  return value;
}

Result StrftimeNow(const Value&, const Given& given) {
  DISTILL_ASSIGN_OR_RETURN(const std::string format, TextArgument("strftime_now", given[0]));
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char buffer[512];
  return Value(std::string(buffer, std::strftime(buffer, sizeof(buffer), format.c_str(), &local)));
}

}  // namespace

Result Builtin::Call(const Value& self, const Arguments& arguments) const {
  if (parameters.size() == 1 && parameters[0] == absl::string_view("...")) return run(self, {arguments, {}});
  const auto& [positional, named] = arguments;
  if (positional.size() > parameters.size()) return Error(absl::StrCat(name, "() is given too many arguments"));
  std::vector<const Value*> bound(parameters.size(), nullptr);
  for (size_t i = 0; i < positional.size(); ++i) bound[i] = &positional[i];
  for (const auto& [parameter, value] : named) {
    const auto found = absl::c_find(parameters, parameter);
    if (found == parameters.end()) return Error(absl::StrCat(name, "() has no argument '", parameter, "'"));
    const Value*& slot = bound[found - parameters.begin()];
    if (slot != nullptr) return Error(absl::StrCat(name, "() is given '", parameter, "' twice"));
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) return Error(absl::StrCat(name, "() lacks '", parameters[i], "'"));
  }
  return run(self, {arguments, std::move(bound)});
}

absl::StatusOr<std::string> TextArgument(absl::string_view function, const Value* value) {
  if (value->IsString()) return *value->text();
  return Error(absl::StrCat(function, "() needs a string, not ", TypeName(*value)));
}

const Builtins& MethodsOf(const Value& receiver) {
  static const Builtins kDict = {{"items", {"items", {}, 0, EntriesMethod<true, true>}},
                                 {"keys", {"items", {}, 0, EntriesMethod<true, false>}},
                                 {"values", {"items", {}, 0, EntriesMethod<false, true>}},
                                 {"get", {"get", {"key", "default"}, 1, GetMethod}},
                                 {"copy", {"copy", {}, 0, CopyMethod}}};
  static const Builtins kList = {{"count", {"count", {"value"}, 1, ListCount}},
                                 {"index", {"index", {"value"}, 1, ListIndex}}};
  static const Builtins kNone;
  if (receiver.IsString()) return TextMethods();
  if (receiver.list() != nullptr) return kList;
  return receiver.dict() != nullptr && receiver.dict()->kind == Dict::Kind::kDict ? kDict : kNone;
}

const Builtins& Globals() {
  static const Builtins kGlobals = {{"raise_exception", {"raise_exception", {"message"}, 1, RaiseException}},
                                    {"range", {"range", {"start", "stop", "step"}, 1, Range}},
                                    {"namespace", {"namespace", {"..."}, 0, DictFunction<Dict::Kind::kNamespace>}},
                                    {"dict", {"dict", {"..."}, 0, DictFunction<Dict::Kind::kDict>}},
                                    {"strftime_now", {"strftime_now", {"format"}, 1, StrftimeNow}}};
  return kGlobals;
}

}  // namespace distill::jinja
