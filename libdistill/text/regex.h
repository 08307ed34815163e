// The regular expressions of tokenizer.json: written for Oniguruma, run by PCRE2 with the same matches.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

class Regex {
 public:
  // InvalidArgument: a syntax error, or a construct that Oniguruma and PCRE2 read differently (named).
  [[nodiscard]] static absl::StatusOr<Regex> Compile(const std::string& pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Walks over the matches in one valid UTF-8 text. One matcher is for one thread.
  class Matcher {
   public:
    Matcher(const Regex& regex, absl::string_view text);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    // The next match that is not empty, as [begin, end); false after the last one. InvalidArgument: the pattern needs
    // more attempts or memory on this text than PCRE2 allows; pattern, text and place are named.
    [[nodiscard]] absl::StatusOr<bool> Next(size_t* begin, size_t* end);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Impl;
  explicit Regex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distill
