// The names that a rendering knows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/jinja/value.h"

namespace distill::jinja {

// Names of a block. Loops and macros open one of their own: what they set is gone after them.
struct Scope {
  Scope* parent = nullptr;
  std::map<std::string, Value> names;
};

class Scopes {
 public:
  Scope& root() { return root_; }
  // A macro that is defined refers to the scopes around it, which stay from then on.
  void NoteMacro() { ++macros_; }
  // Runs body(scope) in a new scope, which stays where a macro that may refer to it was defined meanwhile.
  template <typename Body>
  auto InNewScope(Scope* parent, const Body& body) {
    const size_t kept = scopes_.size();
    const int64_t macros = macros_;
    scopes_.push_back(std::make_unique<Scope>(Scope{parent, {}}));
    auto result = body(scopes_.back().get());
    if (macros_ == macros) scopes_.resize(kept);
    return result;
  }

 private:
  Scope root_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  int64_t macros_ = 0;
};

}  // namespace distill::jinja
