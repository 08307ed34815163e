// How built-ins are called; the methods of dicts and lists, and the functions that a template calls by name.
#include "libdistill/jinja/builtins.h"

#include <algorithm>
#include <ctime>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/loop.h"

namespace distill::jinja {
namespace {

// keys(), values() and items(): views, of a dict that does not change.
template <List::Kind kind>
Result EntriesMethod(const Value& self, const Given&) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries) {
    if (kind == List::Kind::kItems) {
      DISTILL_ASSIGN_OR_RETURN(items.emplace_back(), MakeTuple({key, value}));
    } else {
      items.push_back(kind == List::Kind::kKeys ? key : value);
    }
  }
  return MakeList(std::move(items), kind);
}

Result GetMethod(const Value& self, const Given& given) {
  if (const Value* value = self.dict()->Find(*given[0])) return *value;
  return given[1] == nullptr ? Value::MakeNone() : *given[1];
}

Result CopyMethod(const Value& self, const Given&) { return MakeDict(self.dict()->entries); }

Result ListCount(const Value& self, const Given& given) {
  DISTILL_RETURN_IF_ERROR(given.budget.ReadDeep(self));
  return Value::MakeCount(absl::c_count_if(self.list()->items, [&](const Value& v) { return Equal(v, *given[0]); }));
}

// index(value, start, stop)
Result ListIndex(const Value& self, const Given& given) {
  DISTILL_RETURN_IF_ERROR(given.budget.ReadDeep(self));
  DISTILL_ASSIGN_OR_RETURN(const Value part, Slice(self, given[1] == nullptr ? Value() : *given[1],
                                                   given[2] == nullptr ? Value() : *given[2], Value()));
  const std::vector<Value>& items = part.list()->items;
  const auto found = absl::c_find_if(items, [&](const Value& v) { return Equal(v, *given[0]); });
  if (found == items.end()) return Error("index(): the value is not in the list");
  const int64_t start = given[1] == nullptr ? 0 : given[1]->integer(), size = self.list()->items.size();
  return Value((found - items.begin()) + (start < 0 ? std::max<int64_t>(start + size, 0) : start));
}

Result RaiseException(const Value&, const Given& given) {
  return Error(absl::StrCat("the template refuses these messages: ", Shorten(ToText(*given[0]))));
}

Result Range(const Value&, const Given& given) {
  for (const Value* value : given.bound) {
    if (value != nullptr && !value->IsInteger()) return Error("range() needs integers");
  }
  const int64_t begin = given[1] == nullptr ? 0 : given[0]->integer();
  const int64_t end = given[1] == nullptr ? given[0]->integer() : given[1]->integer();
  const int64_t step = given[2] == nullptr ? 1 : given[2]->integer();
  if (step == 0) return Error("range() with a step of zero");
  return MakeRange({begin, end, step});
}

template <Dict::Kind kind>
Result DictFunction(const Value&, const Given& given) {
  const auto& [positional, named] = given.arguments;
  if (positional.size() > 1) return Error("dict() and namespace() take one dict, and names");
  std::vector<std::pair<Value, Value>> entries;
  if (!positional.empty() && positional[0].dict() != nullptr) {
    entries = positional[0].dict()->entries;
  } else if (!positional.empty()) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> pairs, Iterate(positional[0]));
    for (const Value& pair : pairs) {
      DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> parts, Iterate(pair));
      if (parts.size() != 2) return Error("dict() and namespace() need pairs of a key and a value");
      entries.emplace_back(parts[0], parts[1]);
    }
  }
  entries.insert(entries.end(), named.begin(), named.end());
  for (const auto& [key, value] : entries) {
    if (kind == Dict::Kind::kNamespace && key.IsString() && absl::StartsWith(*key.text(), "_")) {
      return Error(
          absl::StrCat("a namespace cannot hold '", Shorten(*key.text()), "', which starts with an underscore"));
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

absl::StatusOr<std::vector<const Value*>> Bind(const Builtin& builtin, const Arguments& arguments) {
  const auto& [name, parameters, required, run] = builtin;
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
  return bound;
}

}  // namespace

Result Builtin::Call(const Value& self, const Arguments& arguments, Budget& budget) const {
  DISTILL_RETURN_IF_ERROR(budget.ReadShallow(self));
  std::vector<const Value*> bound;
  if (parameters.size() != 1 || parameters[0] != absl::string_view("...")) {
    DISTILL_ASSIGN_OR_RETURN(bound, Bind(*this, arguments));
  }
  DISTILL_ASSIGN_OR_RETURN(Value result, run(self, {arguments, std::move(bound), budget}));
  DISTILL_RETURN_IF_ERROR(budget.BuildShallow(result));
  if (self.IsString() && result.list() != nullptr) {
    DISTILL_RETURN_IF_ERROR(budget.BuildItems(result.list()->items.size()));
  }
  return result;
}

std::string Shorten(absl::string_view text) {
  constexpr size_t kMaxBytes = 1000;
  if (text.size() <= kMaxBytes) return std::string(text);
  return absl::StrCat(text.substr(0, LastCodePoint(text.substr(0, kMaxBytes))), "...");
}

absl::StatusOr<std::string> TextArgument(absl::string_view function, const Value* value) {
  if (value->IsString()) return *value->text();
  return Error(absl::StrCat(function, "() needs a string, not ", TypeName(*value)));
}

const Builtins& MethodsOf(const Value& receiver) {
  static const Builtins kDict = {{"items", {"items", {}, 0, EntriesMethod<List::Kind::kItems>}},
                                 {"keys", {"keys", {}, 0, EntriesMethod<List::Kind::kKeys>}},
                                 {"values", {"values", {}, 0, EntriesMethod<List::Kind::kValues>}},
                                 {"get", {"get", {"key", "default"}, 1, GetMethod}},
                                 {"copy", {"copy", {}, 0, CopyMethod}}};
  static const Builtins kList = {{"count", {"count", {"value"}, 1, ListCount}},
                                 {"index", {"index", {"value", "start", "stop"}, 1, ListIndex}}};
  static const Builtins kNone;
  if (receiver.IsString()) return TextMethods();
  if (dynamic_cast<const Loop*>(receiver.object()) != nullptr) return LoopMethods();
  if (receiver.list() != nullptr) return receiver.list()->IsView() ? kNone : kList;
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
