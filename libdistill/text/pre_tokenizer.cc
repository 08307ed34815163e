// Each kind is one function that makes a step of its options (tokenizers/src/pre_tokenizers).
#include "libdistill/text/pre_tokenizer.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/code_point_table.h"
#include "libdistill/text/json_fields.h"
#include "libdistill/text/regex.h"
#include "libdistill/text/split.h"
#include "libdistill/text/unicode.h"
#include "libdistill/text/word_scanner.h"

namespace distill {
namespace {

using Step = PreTokenizer::Step;
using Storage = std::deque<NormalizedText>;
using Parts = std::vector<TextPart>;

// GPT-2's pattern, which ByteLevel with use_regex stands for.
constexpr char kGpt2Pattern[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The words of a well-known pattern.
Step CutByScanner(const WordScanner& scanner) {
  return {[scanner](const TextPart& part, Storage*, Parts* out) {
            scanner.Append(part, out);
            return absl::OkStatus();
          },
          scanner};
}

absl::Status CutAt(const Regex& pattern, SplitBehavior behavior, bool invert, const TextPart& part, Parts* out) {
  Splitter splitter(part, behavior, invert, out);
  DISTILL_RETURN_IF_ERROR(
      pattern.ForEachMatch(part.text, [&](size_t begin, size_t end) { splitter.Match(begin, end); }));
  splitter.Finish();
  return absl::OkStatus();
}

Step CutAtCharacters(bool (*matches)(char32_t), SplitBehavior behavior) {
  return {[matches, behavior](const TextPart& part, Storage*, Parts* out) {
    Splitter(part, behavior, false, out).MatchCharacters(matches);
    return absl::OkStatus();
  }};
}

TextPart Prefixed(const TextPart& part, absl::string_view prefix, Storage* storage) {
  NormalizedText& text = storage->emplace_back(part);
  text.RewriteWhole([&] {
    text.Append(prefix, 0);
    text.Keep(0, part.text.size());
  });
  return text.whole();
}

absl::StatusOr<Step> Split(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const Regex pattern, PatternOf(options));
  DISTILL_ASSIGN_OR_RETURN(const std::string name, GetString(options, "behavior"));
  DISTILL_ASSIGN_OR_RETURN(const SplitBehavior behavior, SplitBehaviorOf(name));
  DISTILL_ASSIGN_OR_RETURN(const bool invert, GetBool(options, "invert", false));
  // Of a pattern that matches all of a text these keep every match.
  const bool keeps_matches = behavior == SplitBehavior::kIsolated || (behavior == SplitBehavior::kRemoved && invert);
  const Json& text = Get(Get(options, "pattern"), "Regex");
  const auto scanner = text.is_string() ? WordScanner::For(text.get_ref<const std::string&>()) : std::nullopt;
  if (keeps_matches && scanner) return CutByScanner(*scanner);
  return Step{[=](const TextPart& part, Storage*, Parts* out) { return CutAt(pattern, behavior, invert, part, out); }};
}

absl::StatusOr<Step> Digits(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const bool individual, GetBool(options, "individual_digits", false));
  return CutAtCharacters(IsNumber, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

absl::StatusOr<Step> Punctuation(const Json& options) {
  SplitBehavior behavior = SplitBehavior::kIsolated;
  if (!Get(options, "behavior").is_null()) {
    DISTILL_ASSIGN_OR_RETURN(const std::string name, GetString(options, "behavior"));
    DISTILL_ASSIGN_OR_RETURN(behavior, SplitBehaviorOf(name));
  }
  return CutAtCharacters(IsPunctuation, behavior);
}

absl::StatusOr<Step> ByteLevel(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const bool add_prefix_space, GetBool(options, "add_prefix_space", true));
  DISTILL_ASSIGN_OR_RETURN(const bool use_regex, GetBool(options, "use_regex", true));
  const WordScanner scanner = *WordScanner::For(kGpt2Pattern);
  if (!add_prefix_space) return use_regex ? CutByScanner(scanner) : Step{nullptr};
  return Step{[=](const TextPart& part, Storage* storage, Parts* out) {
    const TextPart whole = absl::StartsWith(part.text, " ") ? part : Prefixed(part, " ", storage);
    if (use_regex) {
      scanner.Append(whole, out);
    } else {
      out->push_back(whole);
    }
    return absl::OkStatus();
  }};
}

// BERT's: white space goes, and each punctuation character is a word.
absl::Status CutAsBert(const TextPart& part, Storage*, Parts* out) {
  enum Kind : uint8_t { kWord, kSpace, kMark };
  static const auto* const kKinds = new CodePointTable([](char32_t c) -> uint8_t {
    return IsWhitespace(c) ? kSpace : IsPunctuation(c) ? kMark : kWord;
  });
  const absl::string_view text = part.text;
  size_t begin = 0;
  const auto end_word = [&](size_t end) {
    if (begin < end) out->push_back(part.Part(begin, end));
  };
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const uint8_t kind = kKinds->Of(NextCodePoint(text, &i));
    if (kind == kWord) continue;
    end_word(at);
    if (kind == kMark) out->push_back(part.Part(at, i));
    begin = i;
  }
  end_word(text.size());
  return absl::OkStatus();
}

// \w+|[^\w\s]+
absl::Status CutAtWords(const TextPart& part, Storage*, Parts* out) {
  enum class Kind { kSpace, kWord, kOther };
  Kind kind = Kind::kSpace;
  size_t begin = 0;
  const auto end_word = [&](size_t end) {
    if (kind != Kind::kSpace && begin < end) out->push_back(part.Part(begin, end));
  };
  for (size_t i = 0; i < part.text.size();) {
    const size_t at = i;
    const char32_t c = NextCodePoint(part.text, &i);
    const Kind own = IsWhitespace(c) ? Kind::kSpace : IsWordCharacter(c) ? Kind::kWord : Kind::kOther;
    if (own == kind) continue;
    end_word(at);
    begin = at;
    kind = own;
  }
  end_word(part.text.size());
  return absl::OkStatus();
}

// SentencePiece's: spaces become a character of their own, and words begin with it.
enum class PrependScheme { kAlways, kFirst, kNever };

absl::StatusOr<PrependScheme> PrependSchemeOf(const Json& options) {
  const Json& scheme = Get(options, "prepend_scheme");
  DISTILL_ASSIGN_OR_RETURN(const bool add_prefix_space, GetBool(options, "add_prefix_space", true));
  if (scheme.is_null()) return add_prefix_space ? PrependScheme::kAlways : PrependScheme::kNever;
  if (scheme == "never") return PrependScheme::kNever;
  if (!add_prefix_space) return Invalid("Metaspace: add_prefix_space is false, and prepend_scheme is not 'never'");
  if (scheme == "always") return PrependScheme::kAlways;
  if (scheme == "first") return PrependScheme::kFirst;
  return Unsupported("Metaspace's prepend_scheme", scheme.dump(-1, ' ', true, Json::error_handler_t::replace),
                     "always, first, never");
}

absl::StatusOr<Step> Metaspace(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::string replacement, GetCharacter(options, "replacement"));
  DISTILL_ASSIGN_OR_RETURN(const PrependScheme scheme, PrependSchemeOf(options));
  DISTILL_ASSIGN_OR_RETURN(const bool split, GetBool(options, "split", true));
  size_t at = 0;
  const char32_t mark = NextCodePoint(replacement, &at);
  return Step{[=](const TextPart& part, Storage* storage, Parts* out) {
    NormalizedText& text = storage->emplace_back(part);
    const bool has_prefix = absl::StartsWith(part.text, " ") || absl::StartsWith(part.text, replacement);
    const bool prepends =
        !has_prefix && (scheme == PrependScheme::kAlways || (scheme == PrependScheme::kFirst && part.at_start));
    text.RewriteWhole([&] {
      if (prepends) text.Append(replacement, 0);
      const absl::string_view before = part.text;
      for (size_t begin = 0; begin < before.size();) {
        const size_t space = std::min(before.find(' ', begin), before.size());
        text.Keep(begin, space);
        if (space < before.size()) text.Append(replacement, space);
        begin = space + 1;
      }
    });
    if (split) {
      Splitter(text.whole(), SplitBehavior::kMergedWithNext, false, out).MatchCharacters([mark](char32_t c) {
        return c == mark;
      });
    } else {
      out->push_back(text.whole());
    }
    return absl::OkStatus();
  }};
}

absl::StatusOr<Step> CharDelimiterSplit(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::string delimiter, GetCharacter(options, "delimiter"));
  const Regex pattern = Regex::Literal(delimiter);
  return Step{[pattern](const TextPart& part, Storage*, Parts* out) {
    return CutAt(pattern, SplitBehavior::kRemoved, false, part, out);
  }};
}

absl::StatusOr<Step> StepOf(const Json& part) {
  static const auto* const kWithOptions = new absl::flat_hash_map<std::string, absl::StatusOr<Step> (*)(const Json&)>{
      {"ByteLevel", ByteLevel},     {"CharDelimiterSplit", CharDelimiterSplit},
      {"Digits", Digits},           {"Metaspace", Metaspace},
      {"Punctuation", Punctuation}, {"Split", Split}};
  const std::string type = TypeOf(part);
  if (const auto kind = kWithOptions->find(type); kind != kWithOptions->end()) return kind->second(part);
  if (type == "BertPreTokenizer") return Step{CutAsBert};
  if (type == "Whitespace") return Step{CutAtWords};
  if (type == "WhitespaceSplit") return CutAtCharacters(IsWhitespace, SplitBehavior::kRemoved);
  return Unsupported("pre_tokenizer", type,
                     "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, Metaspace, Punctuation, Split, "
                     "Whitespace, WhitespaceSplit, and a Sequence of them");
}

}  // namespace

absl::Status PreTokenizer::Add(const Json& part) {
  if (is_byte_level_) return Invalid("a pre_tokenizer after ByteLevel is not supported");
  DISTILL_ASSIGN_OR_RETURN(Step step, StepOf(part));
  if (step.cut != nullptr) steps_.push_back(std::move(step));
  is_byte_level_ = TypeOf(part) == "ByteLevel";
  asks_for_start_ = asks_for_start_ || (TypeOf(part) == "Metaspace" && Get(part, "prepend_scheme") == "first");
  return absl::OkStatus();
}

absl::StatusOr<PreTokenizer> PreTokenizer::Parse(const Json& json) {
  PreTokenizer result;
  DISTILL_RETURN_IF_ERROR(ForEachOf(json, "pretokenizers", [&](const Json& part) { return result.Add(part); }));
  return result;
}

absl::Status PreTokenizer::Split(const TextPart& text, Words* words) const {
  words->parts.clear();
  words->storage.clear();
  if (text.text.empty()) return absl::OkStatus();
  words->parts.push_back(text);
  for (const Step& step : steps_) {
    words->next.clear();
    for (const TextPart& part : words->parts) DISTILL_RETURN_IF_ERROR(step.cut(part, &words->storage, &words->next));
    words->parts.swap(words->next);
  }
  return absl::OkStatus();
}

}  // namespace distill
