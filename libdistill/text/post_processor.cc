#include "libdistill/text/post_processor.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"
#include "libdistill/text/json_fields.h"

namespace distill {
namespace {

// ["[CLS]", 101], the member `key` of BERT's and RoBERTa's processors.
absl::StatusOr<int32_t> IdOfPair(const Json& part, const char* key) {
  const Json& pair = Get(part, key);
  if (!pair.is_array() || pair.size() != 2) {
    return Invalid(absl::StrCat("post_processor ", TypeOf(part), ": '", key, "' is not [token, id]"));
  }
  return GetId(pair[1], key);
}

absl::StatusOr<std::vector<int32_t>> IdsOf(const Json& tokens, const std::string& name) {
  const Json& list = Get(Get(tokens, name.c_str()), "ids");
  if (!list.is_array()) return Invalid(absl::StrCat("the post_processor has no special token '", name, "' with ids"));
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    DISTILL_ASSIGN_OR_RETURN(ids.emplace_back(), GetId(id, name));
  }
  return ids;
}

// How many characters from one end of a token stand for spaces.
template <typename Iterator>
int64_t CountSpaces(Iterator begin, Iterator end) {
  const char32_t kSpace = ByteLevelCharacter(' ');
  const auto is_no_space = [&](absl::string_view character) {
    size_t at = 0;
    const char32_t c = NextCodePoint(character, &at);
    return c != kSpace && !IsWhitespace(c);
  };
  return std::find_if(begin, end, is_no_space) - begin;
}

// Offsets move by characters of the text, as many as the token has spaces at that end.
void TrimOne(absl::string_view token, absl::string_view text, bool keeps_one, std::pair<int64_t, int64_t>* offsets) {
  const std::vector<absl::string_view> characters = CodePoints(token);
  int64_t leading = CountSpaces(characters.begin(), characters.end());
  int64_t trailing = CountSpaces(characters.rbegin(), characters.rend());
  if (leading == 1 && keeps_one) leading = 0;  // it was put there
  auto begin = static_cast<size_t>(offsets->first), end = static_cast<size_t>(offsets->second);
  for (; leading > 0 && begin < end; --leading) NextCodePoint(text, &begin);
  for (; trailing > 0 && end > 0; --trailing) end = LastCodePoint(text.substr(0, end));
  offsets->first = static_cast<int64_t>(begin);
  if (trailing == 0) offsets->second = static_cast<int64_t>(std::max(begin, end));
}

Encoding Special(const std::vector<int32_t>& ids, int32_t type_id) {
  const size_t size = ids.size();
  Encoding special;
  special.ids = ids;
  special.type_ids.assign(size, type_id);
  special.offsets.assign(size, {0, 0});
  special.words.assign(size, -1);
  special.texts.assign(size, -1);
  special.is_special.assign(size, 1);
  special.attention_mask.assign(size, 1);
  return special;
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::Parse(const Json& json) {
  PostProcessor result;
  DISTILL_RETURN_IF_ERROR(ForEachOf(json, "processors", [&](const Json& part) { return result.Add(part); }));
  return result;
}

absl::Status PostProcessor::Add(const Json& part) {
  const std::string type = TypeOf(part);
  if (type == "ByteLevel") return AddTrimming(part);
  const bool is_bert = type == "BertProcessing", is_roberta = type == "RobertaProcessing";
  if (type != "TemplateProcessing" && !is_bert && !is_roberta) {
    return Unsupported("post_processor", type,
                       "BertProcessing, ByteLevel, RobertaProcessing, TemplateProcessing, and a Sequence of them");
  }
  if (single_) return Invalid("two post_processors that put tokens around a text are not supported");
  if (is_roberta) DISTILL_RETURN_IF_ERROR(AddTrimming(part));
  return type == "TemplateProcessing" ? AddTemplates(part) : AddBert(part, is_roberta);
}

absl::Status PostProcessor::AddTrimming(const Json& part) {
  DISTILL_ASSIGN_OR_RETURN(const bool trims, GetBool(part, "trim_offsets", true));
  DISTILL_ASSIGN_OR_RETURN(const bool add_prefix_space, GetBool(part, "add_prefix_space", true));
  if (trims) trimmings_.push_back({add_prefix_space});
  return absl::OkStatus();
}

absl::Status PostProcessor::AddBert(const Json& part, bool is_roberta) {
  DISTILL_ASSIGN_OR_RETURN(const int32_t cls, IdOfPair(part, "cls"));
  DISTILL_ASSIGN_OR_RETURN(const int32_t sep, IdOfPair(part, "sep"));
  const Piece begin{-1, {cls}, 0}, end{-1, {sep}, 0};
  retypes_parts_ = true;
  single_ = Template{begin, {0, {}, 0}, end};
  pair_ = *single_;
  const int32_t second_type = is_roberta ? 0 : 1;
  if (is_roberta) pair_->push_back(end);
  pair_->insert(pair_->end(), {{1, {}, second_type}, {-1, {sep}, second_type}});
  return absl::OkStatus();
}

absl::Status PostProcessor::AddTemplates(const Json& part) {
  const Json& tokens = Get(part, "special_tokens");
  DISTILL_ASSIGN_OR_RETURN(single_, ParseTemplate(Get(part, "single"), tokens, false));
  DISTILL_ASSIGN_OR_RETURN(pair_, ParseTemplate(Get(part, "pair"), tokens, true));
  return absl::OkStatus();
}

// [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, ...]
absl::StatusOr<PostProcessor::Template> PostProcessor::ParseTemplate(const Json& pieces, const Json& tokens,
                                                                     bool has_second) {
  if (!pieces.is_array()) return Invalid("a TemplateProcessing has no lists 'single' and 'pair'");
  Template result;
  for (const Json& piece : pieces) {
    Piece parsed;
    const Json& text = Get(piece, "Sequence");
    const Json& one = text.is_null() ? Get(piece, "SpecialToken") : text;
    DISTILL_ASSIGN_OR_RETURN(const std::string id, GetString(one, "id"));
    DISTILL_ASSIGN_OR_RETURN(parsed.type_id, GetId(Get(one, "type_id"), id));
    if (text.is_null()) {
      DISTILL_ASSIGN_OR_RETURN(parsed.ids, IdsOf(tokens, id));
    } else if (id == "A" || (id == "B" && has_second)) {
      parsed.text = id == "A" ? 0 : 1;
    } else {
      return Invalid(absl::StrCat("a TemplateProcessing names the text '", id, "', which there is not"));
    }
    result.push_back(std::move(parsed));
  }
  return result;
}

int64_t PostProcessor::CountAdded(bool has_second) const {
  int64_t count = 0;
  const std::optional<Template>& used = has_second ? pair_ : single_;
  if (used) {
    for (const Piece& piece : *used) count += static_cast<int64_t>(piece.ids.size());
  }
  return count;
}

void PostProcessor::Trim(const Trimming& trimming, absl::string_view text,
                         absl::FunctionRef<absl::string_view(int32_t)> token, Encoding* encoding) {
  for (Encoding& part : encoding->overflowing) Trim(trimming, text, token, &part);
  for (size_t i = 0; i < encoding->ids.size(); ++i) {
    const bool is_first = i == 0 || encoding->offsets[i].first == 0;
    TrimOne(token(encoding->ids[i]), text, trimming.add_prefix_space && is_first, &encoding->offsets[i]);
  }
}

Encoding PostProcessor::Join(std::vector<Input> inputs, bool add_special_tokens,
                             absl::FunctionRef<absl::string_view(int32_t)> token) const {
  for (const Trimming& trimming : trimmings_) {
    for (Input& input : inputs) Trim(trimming, input.text, token, &input.encoding);
  }
  const std::optional<Template>& used = inputs.size() == 1 ? single_ : pair_;
  if (!used) {
    for (size_t i = 1; i < inputs.size(); ++i) Append(inputs[i].encoding, &inputs[0].encoding);
    return std::move(inputs[0].encoding);
  }
  Encoding joined;
  for (const Piece& piece : *used) {
    if (piece.text < 0) {
      if (add_special_tokens) Append(Special(piece.ids, piece.type_id), &joined);
      continue;
    }
    Encoding& text = inputs[piece.text].encoding;
    const auto retype = [&piece](Encoding* part) {
      std::fill(part->type_ids.begin(), part->type_ids.end(), piece.type_id);
    };
    retype(&text);
    for (Encoding& part : text.overflowing) {
      if (retypes_parts_ && add_special_tokens) retype(&part);
    }
    Append(text, &joined);
  }
  return joined;
}

}  // namespace distill
