// Each kind is one function that makes a step of its options. What a step does with the origins of characters is what
// the package `tokenizers` does (tokenizers/src/normalizers).
#include "libdistill/text/normalizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/bert_normalizer.h"
#include "libdistill/text/charsmap.h"
#include "libdistill/text/json_fields.h"
#include "libdistill/text/regex.h"
#include "libdistill/text/unicode.h"

namespace distill {
namespace {

using Step = Normalizer::Step;

Step EachCharacter(std::function<void(NormalizedText*, char32_t, size_t, size_t)> write) {
  return [write = std::move(write)](NormalizedText* text) {
    text->Rewrite([&](char32_t c, size_t begin, size_t end) { write(text, c, begin, end); });
    return absl::OkStatus();
  };
}

Step InFormStep(UnicodeForm form) {
  return [form](NormalizedText* text) {
    ApplyForm(form, text);
    return absl::OkStatus();
  };
}

absl::StatusOr<Step> Strip(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const bool left, GetBool(options, "strip_left", true));
  DISTILL_ASSIGN_OR_RETURN(const bool right, GetBool(options, "strip_right", true));
  return Step([left, right](NormalizedText* text) {
    const std::string& all = text->text();
    const size_t begin = left ? LeadingSpace(all) : 0;
    const size_t end = right ? std::max(begin, WithoutTrailingSpace(all)) : all.size();
    if (begin > 0 || end < all.size()) text->RewriteWhole([&] { text->Keep(begin, end); });
    return absl::OkStatus();
  });
}

absl::StatusOr<Step> Prepend(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::string added, GetString(options, "prepend"));
  return Step([added](NormalizedText* text) {
    const size_t size = text->text().size();
    if (size == 0) return absl::OkStatus();
    text->RewriteWhole([&] {
      text->Append(added, 0);
      text->Keep(0, size);
    });
    return absl::OkStatus();
  });
}

absl::StatusOr<Step> Replace(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const Regex pattern, PatternOf(options));
  DISTILL_ASSIGN_OR_RETURN(const std::string content, GetString(options, "content"));
  return Step([pattern, content](NormalizedText* text) {
    absl::Status status;
    text->RewriteWhole([&] {
      size_t done = 0;
      status = pattern.ForEachMatch(text->text(), [&](size_t begin, size_t end) {
        text->Keep(done, begin);
        text->Append(content, std::max<size_t>(end, 1) - 1);
        done = end;
      });
      text->Keep(done, text->text().size());
    });
    return status;
  });
}

// What SentencePiece's "nmt" normalization rules do to control characters and other spaces.
void NmtCharacter(NormalizedText* text, char32_t c, size_t begin, size_t end) {
  const bool is_gone =
      (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  const bool is_space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  if (is_gone) return;
  is_space ? text->Append(" ", begin) : text->Keep(begin, end);
}

absl::StatusOr<Step> Precompiled(const Json& options) {
  std::string base64, bytes;
  if (!Get(options, "precompiled_charsmap").is_null()) {
    DISTILL_ASSIGN_OR_RETURN(base64, GetString(options, "precompiled_charsmap"));
  }
  if (!absl::Base64Unescape(base64, &bytes)) return Invalid("precompiled_charsmap is not base64");
  DISTILL_ASSIGN_OR_RETURN(const Charsmap map, Charsmap::Parse(bytes));
  return Step([map](NormalizedText* text) {
    map.Apply(text);
    return absl::OkStatus();
  });
}

absl::StatusOr<Step> StepOf(const Json& part) {
  static const auto* const kForms = new absl::flat_hash_map<std::string, UnicodeForm>{
      {"NFC", UnicodeForm::kC}, {"NFD", UnicodeForm::kD}, {"NFKC", UnicodeForm::kKC}, {"NFKD", UnicodeForm::kKD}};
  static const auto* const kWithOptions =
      new absl::flat_hash_map<std::string, absl::StatusOr<Step> (*)(const Json&)>{{"Strip", Strip},
                                                                                  {"Prepend", Prepend},
                                                                                  {"Replace", Replace},
                                                                                  {"BertNormalizer", BertNormalizer},
                                                                                  {"Precompiled", Precompiled}};
  const std::string type = TypeOf(part);
  if (const auto form = kForms->find(type); form != kForms->end()) return InFormStep(form->second);
  if (const auto kind = kWithOptions->find(type); kind != kWithOptions->end()) return kind->second(part);
  if (type == "Lowercase") return EachCharacter(LowerCharacter);
  if (type == "Nmt") return EachCharacter(NmtCharacter);
  if (type == "StripAccents") {
    return EachCharacter([](NormalizedText* text, char32_t c, size_t begin, size_t end) {
      if (!IsMark(c)) text->Keep(begin, end);
    });
  }
  return Unsupported(
      "normalizer", type,
      "NFC, NFD, NFKC, NFKD, BertNormalizer, Lowercase, Nmt, Precompiled, Prepend, Replace, Strip, StripAccents, "
      "and a Sequence of them");
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Parse(const Json& json) {
  Normalizer normalizer;
  DISTILL_RETURN_IF_ERROR(ForEachOf(json, "normalizers", [&](const Json& part) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(Step step, StepOf(part));
    normalizer.steps_.push_back(std::move(step));
    return absl::OkStatus();
  }));
  return normalizer;
}

absl::Status Normalizer::Apply(NormalizedText* text) const {
  for (const Step& step : steps_) DISTILL_RETURN_IF_ERROR(step(text));
  return absl::OkStatus();
}

}  // namespace distill
