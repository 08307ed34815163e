// Methods of dicts and lists, and which value has which methods.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

using Result = absl::StatusOr<Value>;

template <bool keys, bool values>
Result EntriesMethod(const Value& self, const Given&) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries) {
    if (keys && values) {
      DISTILL_ASSIGN_OR_RETURN(Value pair, MakeList({key, value}, /*is_tuple=*/true));
      items.push_back(std::move(pair));
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
  const std::vector<Value>& items = self.list()->items;
  return Value::MakeCount(
      std::count_if(items.begin(), items.end(), [&](const Value& v) { return Equal(v, *given[0]); }));
}

Result ListIndex(const Value& self, const Given& given) {
  const std::vector<Value>& items = self.list()->items;
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& v) { return Equal(v, *given[0]); });
  if (found == items.end()) return Error(absl::StrCat(ToRepr(*given[0]), " is not in the list"));
  return Value::MakeCount(found - items.begin());
}

}  // namespace

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

}  // namespace distill::jinja
