// The variable `loop`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {

// Walks over a sequence as jinja2's LoopContext does: no further than a template asks, so that a condition sees what
// the turns before it have set, and an iterator keeps what a {% break %} leaves.
class Loop : public Object {
 public:
  using Keeps = std::function<absl::StatusOr<bool>(const Value& item)>;  // {% for ... if condition %}

  // InvalidArgument: the value is not iterable.
  static absl::StatusOr<std::shared_ptr<Loop>> Create(const Value& sequence, Keeps keeps, int depth0, Budget& budget);

  // The next turn's item; nothing behind the last one.
  absl::StatusOr<std::optional<Value>> Advance();
  // What a template keeps of the loop is no part of it any more.
  void Finish();

  bool any() const { return index0_ >= 0; }  // there was a turn
  int64_t depth0() const { return depth0_; }
  // The statement to run anew for loop(...), with the scope around it; nullptr where it is not recursive or over.
  const Statement* statement = nullptr;
  Scope* scope = nullptr;

  std::string Repr() const override;
  std::string TypeName() const override { return "'loop object'"; }
  absl::StatusOr<Value> Attribute(absl::string_view name) override;
  Value Cycle(const std::vector<Value>& values) const;
  bool Changed(const std::vector<Value>& values);

 private:
  absl::StatusOr<std::optional<Value>> Pull();  // past those that the condition drops
  absl::StatusOr<std::optional<Value>> Peek();
  absl::StatusOr<int64_t> Length();

  Value sequence_;  // a list, or an iterator
  size_t next_ = 0;
  Keeps keeps_;
  int64_t depth0_ = 0, index0_ = -1;
  std::optional<int64_t> length_;
  std::optional<std::optional<Value>> after_;  // what Peek has found
  std::vector<Value> rest_;                    // what Length has found
  size_t next_rest_ = 0;
  std::optional<Value> before_, current_;
  std::optional<std::vector<Value>> last_changed_;
};

const Builtins& LoopMethods();

}  // namespace distill::jinja
