#include "libdistill/jinja/loop.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill::jinja {
namespace {

Result CycleMethod(const Value& self, const Given& given) {
  const std::vector<Value>& values = given.arguments.positional;
  if (values.empty()) return Error("loop.cycle() needs values");
  return dynamic_cast<const Loop*>(self.object())->Cycle(values);
}

Result ChangedMethod(const Value& self, const Given& given) {
  const std::vector<Value>& values = given.arguments.positional;
  for (const Value& value : values) DISTILL_RETURN_IF_ERROR(given.budget.ReadDeep(value));
  return Value(dynamic_cast<Loop*>(self.object())->Changed(values));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Loop>> Loop::Create(const Value& sequence, Keeps keeps, int depth0, Budget& budget) {
  auto loop = std::make_shared<Loop>();
  loop->sequence_ = sequence;
  if (sequence.list() == nullptr && (sequence.object() == nullptr || !sequence.object()->IsIterable())) {
    DISTILL_ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(sequence));
    DISTILL_RETURN_IF_ERROR(budget.BuildItems(items.size()));
    DISTILL_ASSIGN_OR_RETURN(loop->sequence_, MakeList(std::move(items)));
  }
  loop->keeps_ = std::move(keeps);
  loop->depth0_ = depth0;
  loop->extent = ExtentOf(loop->sequence_);
  ++loop->extent.depth;
  return loop;
}

absl::StatusOr<std::optional<Value>> Loop::Pull() {
  if (next_rest_ < rest_.size()) return rest_[next_rest_++];
  for (;;) {
    std::optional<Value> item;
    if (const List* list = sequence_.list()) {
      if (next_ < list->items.size()) item = list->items[next_++];
    } else if (Object* iterator = sequence_.object()) {
      DISTILL_ASSIGN_OR_RETURN(item, iterator->Next());
    }
    if (!item.has_value() || keeps_ == nullptr) return item;
    DISTILL_ASSIGN_OR_RETURN(const bool keeps, keeps_(*item));
    if (keeps) return item;
  }
}

absl::StatusOr<std::optional<Value>> Loop::Peek() {
  if (!after_.has_value()) {
    DISTILL_ASSIGN_OR_RETURN(after_.emplace(), Pull());
  }
  return *after_;
}

absl::StatusOr<std::optional<Value>> Loop::Advance() {
  DISTILL_ASSIGN_OR_RETURN(std::optional<Value> item, Peek());
  after_.reset();
  if (!item.has_value()) return item;
  ++index0_;
  before_ = std::exchange(current_, item);
  return item;
}

absl::StatusOr<int64_t> Loop::Length() {
  if (length_.has_value()) return *length_;
  if (sequence_.list() != nullptr && keeps_ == nullptr) {
    length_ = sequence_.list()->items.size();
    return *length_;
  }
  std::vector<Value> rest;
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(std::optional<Value> item, Pull());
    if (!item.has_value()) break;
    rest.push_back(*std::move(item));
  }
  rest_ = std::move(rest);
  next_rest_ = 0;
  length_ = static_cast<int64_t>(rest_.size()) + index0_ + 1 + after_.has_value();
  return *length_;
}

void Loop::Finish() {
  keeps_ = nullptr;
  statement = nullptr;
  sequence_ = Value();
  last_changed_.reset();
}

std::string Loop::Repr() const { return absl::StrCat("<LoopContext ", index0_ + 1, "/", length_.value_or(0), ">"); }

absl::StatusOr<Value> Loop::Attribute(absl::string_view name) {
  if (name == "index") return Value(index0_ + 1);
  if (name == "index0") return Value(index0_);
  if (name == "first") return Value(index0_ == 0);
  if (name == "depth") return Value(depth0_ + 1);
  if (name == "depth0") return Value(depth0_);
  if (name == "previtem")
    return index0_ > 0 && before_.has_value() ? *before_ : Value::MakeUndefined("there is no previous item");
  if (name == "last" || name == "nextitem") {
    DISTILL_ASSIGN_OR_RETURN(const std::optional<Value> next, Peek());
    if (name == "last") return Value(!next.has_value());
    return next.has_value() ? *next : Value::MakeUndefined("there is no next item");
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    DISTILL_ASSIGN_OR_RETURN(const int64_t length, Length());
    return Value(name == "length" ? length : length - index0_ - (name == "revindex0" ? 1 : 0));
  }
  return Object::Attribute(name);
}

Value Loop::Cycle(const std::vector<Value>& values) const { return values[index0_ % values.size()]; }

bool Loop::Changed(const std::vector<Value>& values) {
  if (last_changed_.has_value() &&
      std::equal(values.begin(), values.end(), last_changed_->begin(), last_changed_->end(), Equal)) {
    return false;
  }
  last_changed_ = values;
  return true;
}

const Builtins& LoopMethods() {
  static const Builtins kMethods = {{"changed", {"changed", {"..."}, 0, ChangedMethod}},
                                    {"cycle", {"cycle", {"..."}, 0, CycleMethod}}};
  return kMethods;
}

}  // namespace distill::jinja
