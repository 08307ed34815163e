// Filters of texts.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

Result Trim(const Value& input, const Given& given) {
  if (given[0] != nullptr && !given[0]->IsNone() && !given[0]->IsString())
    return Error("trim: the characters are no string");
  if (given[0] != nullptr && given[0]->IsString()) {
    DISTILL_RETURN_IF_ERROR(ChargeSearch(ExtentOf(input).bytes, given[0]->text()->size(), given.budget));
  }
  return Value(Strip(ToText(input), given[0], true, true));
}

// A word starts at the text's start and after "-", whitespace and opening brackets.
std::string TitleText(absl::string_view text) {
  std::string out;
  const auto separates = [](absl::string_view c) {
    size_t position = 0;
    return IsSpace(NextCodePoint(c, &position)) || c == "-" || c == "(" || c == "{" || c == "[" || c == "<";
  };
  const std::vector<absl::string_view> characters = CodePoints(text);
  for (size_t i = 0; i < characters.size();) {
    if (separates(characters[i])) {
      absl::StrAppend(&out, characters[i++]);
      continue;
    }
    out += ToUpper(characters[i++]);
    const char* begin = characters[i - 1].data() + characters[i - 1].size();
    while (i < characters.size() && !separates(characters[i])) ++i;
    const char* end = i < characters.size() ? characters[i].data() : text.data() + text.size();
    out += ToLower(absl::string_view(begin, end - begin));
  }
  return out;
}

Result ReplaceFilter(const Value& input, const Given& given) {
  const bool all = given[2] == nullptr || given[2]->IsNone();
  if (!all && !given[2]->IsInteger()) return Error("replace: the count is no number");
  const std::string text = ToText(input), old = ToText(*given[0]);
  DISTILL_RETURN_IF_ERROR(ChargeSearch(text.size(), old.size(), given.budget));
  return Replace(text, old, ToText(*given[1]), all ? -1 : given[2]->integer());
}

// Every line but the first is moved to the right; blank ones only with `blank`.
Result Indent(const Value& input, const Given& given) {
  if (!input.IsString()) return Error(absl::StrCat("indent: ", TypeName(input), " is no string"));
  std::string indent(4, ' ');
  if (given[0] != nullptr && given[0]->IsString()) {
    indent = *given[0]->text();
  } else if (given[0] != nullptr) {
    if (!given[0]->IsInteger()) return Error("indent: the width is neither a number nor a string");
    if (given[0]->integer() > static_cast<int64_t>(kMaxTextBytes))
      return BoundedText(std::string(kMaxTextBytes + 1, ' '));
    indent.assign(std::max<int64_t>(given[0]->integer(), 0), ' ');
  }
  const bool first = given[1] != nullptr && IsTrue(*given[1]);
  const bool blank = given[2] != nullptr && IsTrue(*given[2]);
  const std::vector<std::string> lines = SplitLines(*input.text() + "\n");
  std::string out;
  for (size_t i = 0; i < lines.size() && out.size() <= kMaxTextBytes; ++i) {
    if (i > 0) out += '\n';
    if (i == 0 ? first : blank || !lines[i].empty()) out += indent;
    out += lines[i];
  }
  return BoundedText(std::move(out));
}

Result Center(const Value& input, const Given& given) {
  const Value width = given[0] == nullptr ? Value(80) : *given[0];
  Arguments arguments;
  arguments.positional = {width};
  return TextMethods().at("center").Call(Value(ToText(input)), arguments, given.budget);
}

Result Escape(const Value& input, const Given&) {
  return BoundedText(absl::StrReplaceAll(
      ToText(input), {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}}));
}

// truncate(length, killwords, end, leeway)
Result Truncate(const Value& input, const Given& given) {
  if (!input.IsString()) return Error(absl::StrCat("truncate: ", TypeName(input), " is no string"));
  const Value length_value = given[0] == nullptr ? Value(255) : *given[0];
  const Value leeway_value = given[3] == nullptr || given[3]->IsNone() ? Value(5) : *given[3];
  if (!length_value.IsInteger() || !leeway_value.IsInteger()) return Error("truncate: length and leeway are numbers");
  std::string end = "...";
  if (given[2] != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(end, TextArgument("truncate", given[2]));
  }
  const int64_t length = length_value.integer(), leeway = leeway_value.integer();
  const auto end_size = static_cast<int64_t>(CountCodePoints(end));
  if (length < end_size || leeway < 0)
    return Error("truncate: the length is less than that of the end, or the leeway is negative");
  const std::vector<absl::string_view> characters = CodePoints(*input.text());
  if (static_cast<int64_t>(characters.size()) - leeway <= length) return input;
  std::string out;
  for (int64_t i = 0; i < length - end_size; ++i) absl::StrAppend(&out, characters[i]);
  const size_t space = out.rfind(' ');
  if ((given[1] == nullptr || !IsTrue(*given[1])) && space != std::string::npos) out.resize(space);
  return BoundedText(out + end);
}

// Words as the regular expression \w+ finds them.
Result WordCount(const Value& input, const Given&) {
  const std::string text = ToText(input);
  int64_t words = 0;
  bool within = false;
  for (size_t i = 0; i < text.size();) {
    const bool is_word = IsWordCharacter(NextCodePoint(text, &i));
    words += is_word && !within;
    within = is_word;
  }
  return Value(words);
}

std::string QuoteForUrl(absl::string_view text, bool is_query) {
  std::string out;
  for (const char c : text) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                       absl::string_view("_.-~").find(c) != absl::string_view::npos;
    if (plain || (c == '/' && !is_query)) {
      out.push_back(c);
    } else if (c == ' ' && is_query) {
      out.push_back('+');
    } else {
      absl::StrAppendFormat(&out, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Result UrlEncode(const Value& input, const Given& given) {
  if (input.IsString() || !IsIterable(input)) return BoundedText(QuoteForUrl(ToText(input), false));
  Value pairs = input;
  if (input.dict() != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(pairs, MethodsOf(input).at("items").Call(input, {}, given.budget));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(pairs));
  std::string out;
  for (const Value& item : items) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<Value> pair, Iterate(item));
    if (pair.size() != 2) return Error("urlencode: needs pairs of a name and a value");
    absl::StrAppend(&out, out.empty() ? "" : "&", QuoteForUrl(ToText(pair[0]), true), "=",
                    QuoteForUrl(ToText(pair[1]), true));
    if (out.size() > kMaxTextBytes) break;
  }
  return BoundedText(std::move(out));
}

// format(...) of "%s" and the like.
Result Format(const Value& input, const Given& given) {
  const auto& [positional, named] = given.arguments;
  if (!positional.empty() && !named.empty()) return Error("format: takes values or named values, not both");
  Value values;
  if (named.empty()) {
    DISTILL_ASSIGN_OR_RETURN(values, MakeTuple(positional));
  } else {
    DISTILL_ASSIGN_OR_RETURN(values, MakeDict({named.begin(), named.end()}));
  }
  return FormatPercent(ToText(input), values);
}

Result ToString(const Value& input, const Given&) { return BoundedText(ToText(input)); }

}  // namespace

const Builtins& TextFilters() {
  static const Builtins kFilters = {
      {"capitalize", {"filter", {}, 0, Convert<Capitalize>}},
      {"center", {"center", {"width"}, 0, Center}},
      {"e", {"escape", {}, 0, Escape}},
      {"escape", {"escape", {}, 0, Escape}},
      {"forceescape", {"escape", {}, 0, Escape}},
      {"format", {"format", {"..."}, 0, Format}},
      {"indent", {"indent", {"width", "first", "blank"}, 0, Indent}},
      {"lower", {"filter", {}, 0, Convert<ToLower>}},
      {"replace", {"replace", {"old", "new", "count"}, 2, ReplaceFilter}},
      {"safe", {"safe", {}, 0, ToString}},
      {"string", {"string", {}, 0, ToString}},
      {"title", {"filter", {}, 0, Convert<TitleText>}},
      {"trim", {"trim", {"chars"}, 0, Trim}},
      {"truncate", {"truncate", {"length", "killwords", "end", "leeway"}, 0, Truncate}},
      {"upper", {"filter", {}, 0, Convert<ToUpper>}},
      {"urlencode", {"urlencode", {}, 0, UrlEncode}},
      {"wordcount", {"wordcount", {}, 0, WordCount}},
  };
  return kFilters;
}

}  // namespace distill::jinja
