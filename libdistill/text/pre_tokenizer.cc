#include "libdistill/text/pre_tokenizer.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::Status Cut(const Regex& regex, const PreTokenizerStep& options, absl::string_view piece,
                 std::vector<absl::string_view>* out) {
  size_t done = 0;
  DISTILL_RETURN_IF_ERROR(regex.ForEachMatch(piece, [&](size_t begin, size_t end) {
    if (begin > done && options.keep_rest) out->push_back(piece.substr(done, begin - done));
    if (options.keep_matches) out->push_back(piece.substr(begin, end - begin));
    done = end;
  }));
  if (done < piece.size() && options.keep_rest) out->push_back(piece.substr(done));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Create(const std::vector<PreTokenizerStep>& steps) {
  PreTokenizer result;
  for (const PreTokenizerStep& options : steps) {
    Step step{options, {}};
    if (!options.pattern.empty()) {
      DISTILL_ASSIGN_OR_RETURN(step.regex, Regex::Compile(options.pattern));
    }
    result.steps_.push_back(std::move(step));
  }
  return result;
}

absl::Status PreTokenizer::Split(absl::string_view text, Words* words) const {
  words->views.clear();
  words->storage.clear();
  if (text.empty()) return absl::OkStatus();
  words->views.push_back(text);
  std::vector<absl::string_view> next;
  for (const Step& step : steps_) {
    next.clear();
    for (absl::string_view piece : words->views) {
      if (step.options.add_prefix_space && !absl::StartsWith(piece, " ")) {
        piece = words->storage.emplace_back(absl::StrCat(" ", piece));
      }
      if (!step.regex) {
        next.push_back(piece);
      } else {
        DISTILL_RETURN_IF_ERROR(Cut(*step.regex, step.options, piece, &next));
      }
    }
    words->views.swap(next);
  }
  return absl::OkStatus();
}

}  // namespace distill
