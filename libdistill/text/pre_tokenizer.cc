#include "libdistill/text/pre_tokenizer.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

void Cut(const Regex& regex, const PreTokenizerStep& options, absl::string_view piece,
         std::vector<absl::string_view>* out) {
  Regex::Matcher matcher(regex, piece);
  size_t done = 0, begin = 0, end = 0;
  while (matcher.Next(&begin, &end)) {
    if (begin > done && options.keep_rest) out->push_back(piece.substr(done, begin - done));
    if (options.keep_matches) out->push_back(piece.substr(begin, end - begin));
    done = end;
  }
  if (done < piece.size() && options.keep_rest) out->push_back(piece.substr(done));
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Create(const std::vector<PreTokenizerStep>& steps) {
  PreTokenizer result;
  for (const PreTokenizerStep& options : steps) {
    Step step{options, {}};
    if (!options.pattern.empty()) {
      DISTILL_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(options.pattern));
      step.regex.push_back(std::move(regex));
    }
    result.steps_.push_back(std::move(step));
  }
  return result;
}

void PreTokenizer::Split(absl::string_view text, Words* words) const {
  words->views.clear();
  words->storage.clear();
  if (text.empty()) return;
  words->views.push_back(text);
  std::vector<absl::string_view> next;
  for (const Step& step : steps_) {
    next.clear();
    for (absl::string_view piece : words->views) {
      if (step.options.add_prefix_space && !absl::StartsWith(piece, " ")) {
        piece = words->storage.emplace_back(absl::StrCat(" ", piece));
      }
      if (step.regex.empty()) {
        next.push_back(piece);
      } else {
        Cut(step.regex.front(), step.options, piece, &next);
      }
    }
    words->views.swap(next);
  }
}

}  // namespace distill
