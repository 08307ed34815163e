#include "libdistill/data/span_windows.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"

namespace distill {
namespace {

constexpr int32_t kContext = 1;  // the second text

bool HasContext(const Encoding& window) {
  return std::find(window.texts.begin(), window.texts.end(), kContext) != window.texts.end();
}

absl::Status CheckNumber(const Tokenizer& tokenizer, absl::string_view question, const std::string& context,
                         const WindowOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const Encoding whole, tokenizer.EncodeInput(question, context, {}));
  const int64_t of_context = std::count(whole.texts.begin(), whole.texts.end(), kContext);
  const int64_t room = options.max_length - (whole.size() - of_context), step = room - options.stride;
  if (step <= 0) return absl::OkStatus();  // refused where they are made
  const int64_t windows = 1 + std::max<int64_t>(0, of_context - room + step - 1) / step;
  if (windows <= options.most_windows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the context has ", of_context, " tokens, which take ", windows,
                                                 " windows beside this question, more than ", options.most_windows,
                                                 ": send a shorter context, or a shorter question"));
}

}  // namespace

absl::StatusOr<std::vector<Encoding>> WindowsOf(const Tokenizer& tokenizer, const std::string& question,
                                                const std::string& context, const WindowOptions& options) {
  const absl::string_view asked = absl::string_view(question).substr(LeadingSpace(question));
  if (options.most_windows > 0) DISTILL_RETURN_IF_ERROR(CheckNumber(tokenizer, asked, context, options));
  absl::StatusOr<Encoding> first = tokenizer.EncodeInput(
      asked, context,
      {.max_length = options.max_length, .truncation = Truncation::kOnlySecond, .stride = options.stride});
  if (!first.ok()) {
    return Annotate(first.status(),
                    absl::StrCat("the question leaves too little room for the context: raise max_length, which is ",
                                 options.max_length, ", or lower stride, which is ", options.stride));
  }
  std::vector<Encoding> parts = std::move(first->overflowing);
  first->overflowing.clear();
  std::vector<Encoding> windows;
  windows.push_back(*std::move(first));
  std::move(parts.begin(), parts.end(), std::back_inserter(windows));
  if (HasContext(windows.front())) return windows;
  return absl::InvalidArgumentError("the context has no tokens");
}

int64_t PlaceOfNoAnswer(const Tokenizer& tokenizer, const Encoding& window) {
  for (const std::string* token : {&tokenizer.cls_token(), &tokenizer.bos_token()}) {
    if (token->empty()) continue;
    const auto found = std::find(window.ids.begin(), window.ids.end(), tokenizer.TokenToId(*token).value_or(-1));
    if (found != window.ids.end()) return found - window.ids.begin();
  }
  return 0;
}

TokenSpan SpanOfBytes(const Encoding& window, int64_t begin, int64_t end, int64_t no_answer) {
  const auto of_context = std::find(window.texts.begin(), window.texts.end(), kContext);
  const auto last_of_context = std::find(window.texts.rbegin(), window.texts.rend(), kContext);
  if (of_context == window.texts.end()) return {no_answer, no_answer};
  int64_t first = of_context - window.texts.begin();
  int64_t last = window.size() - 1 - (last_of_context - window.texts.rbegin());
  if (window.offsets[first].first > begin || window.offsets[last].second < end) return {no_answer, no_answer};
  const int64_t first_of_context = first, behind_context = last + 1;
  while (first < behind_context && window.offsets[first].first <= begin) ++first;
  while (last >= first_of_context && window.offsets[last].second >= end) --last;
  return {first - 1, last + 1};
}

}  // namespace distill
