// The subset of Jinja that chat templates are written in, with jinja2's results under transformers' settings
// (trim_blocks, lstrip_blocks, loop controls, the {% generation %} block, its sandbox's immutability).
//
//   DISTILL_ASSIGN_OR_RETURN(auto source, jinja::Template::Parse("Hello {{ name }}"));
//   DISTILL_ASSIGN_OR_RETURN(auto output, source.Render({{"name", jinja::Value("you")}}));
//
// Bounded: nesting, recursion, steps and output, so that a foreign template ends in an error at worst.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/jinja/value.h"

namespace distill::jinja {

struct ParsedTemplate;

struct Output {
  std::string text;
  std::vector<std::pair<size_t, size_t>> generation;  // byte ranges of the {% generation %} blocks
};

class Template {
 public:
  // InvalidArgument: syntax that is wrong or not supported, as "line 3: ...".
  [[nodiscard]] static absl::StatusOr<Template> Parse(absl::string_view source);

  bool has_generation() const;
  // Any thread may call it. InvalidArgument: raise_exception, or a construct that fails on these values.
  [[nodiscard]] absl::StatusOr<Output> Render(const std::vector<std::pair<std::string, Value>>& variables) const;

 private:
  explicit Template(std::shared_ptr<const ParsedTemplate> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const ParsedTemplate> parsed_;
};

}  // namespace distill::jinja
