// The regular expressions of tokenizer.json: written for Oniguruma, run by PCRE2 with the same matches.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

class Regex {
 public:
  // InvalidArgument: a syntax error, or a construct that PCRE2 cannot match as Oniguruma does; it is named, with its
  // place (regex_syntax.h).
  [[nodiscard]] static absl::StatusOr<Regex> Compile(const std::string& pattern);

  // A pattern that matches `text` alone, which is not empty.
  static Regex Literal(const std::string& text);

  // Calls `take` with every match in `text`, valid UTF-8, as [begin, end), in order. An empty match counts where no
  // other one ends; an empty text has none. Any thread may call it. InvalidArgument: the pattern needs more attempts or
  // memory on this text than PCRE2 allows; pattern, text and place are named.
  [[nodiscard]] absl::Status ForEachMatch(absl::string_view text,
                                          absl::FunctionRef<void(size_t begin, size_t end)> take) const;

 private:
  struct Impl;
  explicit Regex(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace distill
