// The functions that a template calls by name.
#include <ctime>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

using Result = absl::StatusOr<Value>;

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
  const Arguments& arguments = given.arguments;
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) return Error("dict() and namespace() take one dict, and names");
  if (!arguments.positional.empty()) {
    const Dict* source = arguments.positional[0].dict();
    if (source == nullptr) return Error("dict() and namespace() take one dict, and names");
    entries = source->entries;
  }
  for (const auto& [name, value] : arguments.named) entries.emplace_back(name, value);
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

const Builtins& Globals() {
  static const Builtins kGlobals = {{"raise_exception", {"raise_exception", {"message"}, 1, RaiseException}},
                                    {"range", {"range", {"start", "stop", "step"}, 1, Range}},
                                    {"namespace", {"namespace", {"..."}, 0, DictFunction<Dict::Kind::kNamespace>}},
                                    {"dict", {"dict", {"..."}, 0, DictFunction<Dict::Kind::kDict>}},
                                    {"strftime_now", {"strftime_now", {"format"}, 1, StrftimeNow}}};
  return kGlobals;
}

}  // namespace distill::jinja
