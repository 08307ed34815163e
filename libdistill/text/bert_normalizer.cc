#include "libdistill/text/bert_normalizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/code_point_table.h"
#include "libdistill/text/json_fields.h"

namespace distill {
namespace {

struct BertOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

// CJK ideographs as BERT counts them: neither kana nor Hangul.
bool IsChinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void CleanCharacter(NormalizedText* text, char32_t c, size_t begin, size_t end) {
  const bool is_space = IsWhitespace(c);  // tab and line ends are control characters, too
  const bool is_kept_control = c == '\t' || c == '\n' || c == '\r';
  if (c == 0 || c == 0xFFFD || (IsControl(c) && !is_kept_control)) return;
  is_space ? text->Append(" ", begin) : text->Keep(begin, end);
}

void SpaceOutChinese(NormalizedText* text, char32_t c, size_t begin, size_t end) {
  const bool is_chinese = IsChinese(c);
  if (is_chinese) text->Append(" ", begin);
  text->Keep(begin, end);
  if (is_chinese) text->Append(" ", begin);
}

void DropNonSpacingMark(NormalizedText* text, char32_t c, size_t begin, size_t end) {
  if (!IsNonSpacingMark(c)) text->Keep(begin, end);
}

void InSteps(const BertOptions& options, NormalizedText* text) {
  const auto each = [text](void (*write)(NormalizedText*, char32_t, size_t, size_t)) {
    text->Rewrite([&](char32_t c, size_t begin, size_t end) { write(text, c, begin, end); });
  };
  if (options.clean_text) each(CleanCharacter);
  if (options.handle_chinese_chars) each(SpaceOutChinese);
  if (options.strip_accents) {
    ApplyForm(UnicodeForm::kD, text);
    each(DropNonSpacingMark);
  }
  if (options.lowercase) each(LowerCharacter);
}

// What becomes of each ASCII character; -1: it goes.
std::array<int8_t, 128> AsciiTable(const BertOptions& options) {
  std::array<int8_t, 128> table;
  for (int c = 0; c < 128; ++c) {
    NormalizedText one(std::string(1, static_cast<char>(c)), 0, false);
    InSteps(options, &one);
    table[c] = one.text().empty() ? int8_t{-1} : static_cast<int8_t>(one.text()[0]);
  }
  return table;
}

// What becomes of a character outside of ASCII, whatever stands beside it: it stays, between spaces or not.
enum Kind : uint8_t { kOther, kKept, kSpacedOut };

uint8_t KindOf(const BertOptions& options, char32_t c) {
  if (c < 0x80 || (c >= 0xD800 && c <= 0xDFFF)) return kOther;
  if (options.clean_text && (c == 0xFFFD || IsControl(c) || IsWhitespace(c))) return kOther;
  std::string one, lower;
  AppendUtf8(c, &one);
  if (options.strip_accents && (!IsSurelyInForm(UnicodeForm::kD, one) || IsNonSpacingMark(c))) return kOther;
  if (options.lowercase) AppendLower(c, &lower);
  if (options.lowercase && lower != one) return kOther;
  return options.handle_chinese_chars && IsChinese(c) ? kSpacedOut : kKept;
}

// Where the characters from `begin` on end that `kinds` alone says all about.
size_t EndOfPlain(const CodePointTable& kinds, absl::string_view text, size_t begin) {
  for (size_t next = begin; next < text.size(); begin = next) {
    if (kinds.Of(NextCodePoint(text, &next)) == kOther) break;
  }
  return begin;
}

void AppendPlain(const CodePointTable& kinds, absl::string_view before, size_t begin, size_t end,
                 NormalizedText* text) {
  for (size_t next = begin; begin < end; begin = next) {
    const bool is_spaced_out = kinds.Of(NextCodePoint(before, &next)) == kSpacedOut;
    if (is_spaced_out) text->Append(" ", begin);
    text->Keep(begin, next);
    if (is_spaced_out) text->Append(" ", begin);
  }
}

size_t EndOfOthers(absl::string_view text, size_t begin) {
  while (begin < text.size() && static_cast<uint8_t>(text[begin]) >= 0x80) ++begin;
  return begin;
}

}  // namespace

void LowerCharacter(NormalizedText* text, char32_t c, size_t begin, size_t) {
  if (c < 0x80) return text->Append(static_cast<char32_t>(absl::ascii_tolower(static_cast<unsigned char>(c))), begin);
  std::string lower;
  AppendLower(c, &lower);
  text->Append(lower, begin);
}

void ApplyForm(UnicodeForm form, NormalizedText* text) {
  const std::string& before = text->text();
  if (IsSurelyInForm(form, before)) return;
  if (text->whole().origins != nullptr) return text->Apply(ChangesInto(form, before));
  text->RewriteWhole([&] { text->Append(InForm(form, before), 0); });
}

// ASCII characters neither join nor reorder with their neighbours in form D, so that runs of them and of others are
// brought into form by themselves: by a table, and in steps. Of the others nearly all have a table, too.
absl::StatusOr<Normalizer::Step> BertNormalizer(const Json& json) {
  constexpr char32_t kEndOfTable = 0x10000;
  BertOptions options;
  DISTILL_ASSIGN_OR_RETURN(options.clean_text, GetBool(json, "clean_text", true));
  DISTILL_ASSIGN_OR_RETURN(options.handle_chinese_chars, GetBool(json, "handle_chinese_chars", true));
  DISTILL_ASSIGN_OR_RETURN(options.lowercase, GetBool(json, "lowercase", true));
  DISTILL_ASSIGN_OR_RETURN(options.strip_accents, GetBool(json, "strip_accents", options.lowercase));
  const CodePointTable kinds([&](char32_t c) { return KindOf(options, c); }, kEndOfTable, kOther);
  return Normalizer::Step([options, kinds, table = AsciiTable(options)](NormalizedText* text) {
    const TextPart before = text->whole();
    text->RewriteWhole([&] {
      const absl::string_view bytes = before.text;
      for (size_t begin = 0, end = 0; begin < bytes.size(); begin = end) {
        end = EndOfAscii(bytes, begin);
        if (begin < end) {
          text->KeepReplaced(begin, end, table);
          continue;
        }
        end = EndOfOthers(bytes, begin);
        if (EndOfPlain(kinds, bytes.substr(0, end), begin) == end) {
          AppendPlain(kinds, bytes, begin, end, text);
          continue;
        }
        NormalizedText run(before.Part(begin, end));
        InSteps(options, &run);
        text->Append(run.whole());
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace distill
