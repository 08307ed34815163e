#include "libdistill/text/tokenizer_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/byte_pair_encoder.h"
#include "libdistill/text/json_fields.h"
#include "libdistill/text/tokenizer_class.h"
#include "libdistill/text/unigram.h"

namespace distill {
namespace {

absl::Status ParseMerges(const Json& merges, BpeOptions* bpe) {
  if (!merges.is_array()) return Invalid("the model has no list 'merges'");
  bpe->merges.reserve(merges.size());
  for (const Json& merge : merges) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      bpe->merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const std::string text = merge.is_string() ? merge.get<std::string>() : "";
    if (absl::StartsWith(text, "#version")) continue;
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return Invalid(absl::StrCat("merge ", bpe->merges.size(), " is neither \"a b\" nor [\"a\", \"b\"]"));
    }
    bpe->merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return absl::OkStatus();
}

// Options of the model that would change its ids.
absl::Status RefuseBpeOptions(const Json& model) {
  const Json& dropout = Get(model, "dropout");
  if (!dropout.is_null() && dropout != 0.0) return Unsupported("the model's", "dropout", "none");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& value = Get(model, key);
    if (!value.is_null() && value != "") return Unsupported("the model's", key, "none");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> UnkTokenOf(const Json& model, const std::string& otherwise) {
  const Json& unk = Get(model, "unk_token");
  if (unk.is_null()) return otherwise;
  if (!unk.is_string()) return Invalid("the model's 'unk_token' is no string");
  return unk.get<std::string>();
}

absl::Status ParseVocabulary(const Json& vocab, Vocabulary* result) {
  if (!vocab.is_object()) return Invalid("the model has no 'vocab'");
  result->reserve(vocab.size());
  for (const auto& [token, value] : vocab.items()) {
    DISTILL_ASSIGN_OR_RETURN(const int32_t id, GetId(value, token));
    result->emplace(token, id);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const TokenModel>> ParseBpe(const Json& model, const Vocabulary& vocab,
                                                           bool is_byte_level) {
  DISTILL_RETURN_IF_ERROR(RefuseBpeOptions(model));
  BpeOptions options;
  options.is_byte_level = is_byte_level;
  DISTILL_ASSIGN_OR_RETURN(options.unk_token, UnkTokenOf(model, ""));
  DISTILL_ASSIGN_OR_RETURN(options.fuse_unk, GetBool(model, "fuse_unk", false));
  DISTILL_ASSIGN_OR_RETURN(options.byte_fallback, GetBool(model, "byte_fallback", false));
  DISTILL_ASSIGN_OR_RETURN(options.ignore_merges, GetBool(model, "ignore_merges", false));
  DISTILL_RETURN_IF_ERROR(ParseMerges(Get(model, "merges"), &options));
  return MakeBytePairEncoder(vocab, options);
}

absl::StatusOr<std::shared_ptr<const TokenModel>> ParseWordPiece(const Json& model, const Vocabulary& vocab) {
  WordPieceOptions options;
  DISTILL_ASSIGN_OR_RETURN(options.unk_token, UnkTokenOf(model, options.unk_token));
  if (const Json& prefix = Get(model, "continuing_subword_prefix"); !prefix.is_null()) {
    DISTILL_ASSIGN_OR_RETURN(options.continuing_prefix, GetString(model, "continuing_subword_prefix"));
  }
  if (const Json& longest = Get(model, "max_input_chars_per_word"); !longest.is_null()) {
    DISTILL_ASSIGN_OR_RETURN(options.max_characters, GetId(longest, "max_input_chars_per_word"));
  }
  return MakeWordPiece(vocab, options);
}

// As `tokenizers` reads a number: its digits as an integer, times or by a power of ten (serde_json without
// float_roundtrip). The last bit may be another one than that of the nearest double, and decides between ways to cut a
// word that are equally likely.
double AsReadByTokenizers(double number) {
  std::array<char, 32> text;  // "8.166323368162953e+00", the fewest digits that say the number
  const char* const end =
      std::to_chars(text.data(), text.data() + text.size(), std::abs(number), std::chars_format::scientific).ptr;
  const absl::string_view all(text.data(), static_cast<size_t>(end - text.data()));
  const size_t mark = all.find('e');
  std::string digits(all.substr(0, mark));
  int exponent = 0;
  if (!absl::SimpleAtoi(all.substr(mark + 1), &exponent)) return number;  // no finite number
  if (digits.size() > 1) {
    digits.erase(1, 1);  // the point
    exponent -= static_cast<int>(digits.size()) - 1;
  }
  uint64_t significand = 0;
  double power = 0;
  if (!absl::SimpleAtoi(digits, &significand)) return number;
  if (!absl::SimpleAtod(absl::StrCat("1e", std::abs(exponent)), &power)) return number;
  const double read =
      exponent >= 0 ? static_cast<double>(significand) * power : static_cast<double>(significand) / power;
  return number < 0 ? -read : read;
}

// [["token", logarithm of its probability], ...]
absl::StatusOr<std::shared_ptr<const TokenModel>> ParseUnigram(const Json& model, Vocabulary* vocab) {
  const Json& tokens = Get(model, "vocab");
  if (!tokens.is_array()) return Invalid("the model has no list 'vocab'");
  UnigramOptions options;
  for (const Json& pair : tokens) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number()) {
      return Invalid(absl::StrCat("token ", options.tokens.size(), " is not [text, number]"));
    }
    options.tokens.emplace_back(pair[0].get<std::string>(), AsReadByTokenizers(pair[1].get<double>()));
    (*vocab)[options.tokens.back().first] = static_cast<int32_t>(options.tokens.size()) - 1;
  }
  DISTILL_ASSIGN_OR_RETURN(options.unk_id, GetId(Get(model, "unk_id"), "unk_id"));
  DISTILL_ASSIGN_OR_RETURN(options.byte_fallback, GetBool(model, "byte_fallback", false));
  return MakeUnigram(options);
}

// Old files do not name the model: merges are BPE's, a list of tokens is Unigram's, a prefix is WordPiece's.
std::string ModelTypeOf(const Json& model) {
  if (!Get(model, "type").is_null()) return TypeOf(model);
  if (Get(model, "merges").is_array()) return "BPE";
  if (Get(model, "vocab").is_array()) return "Unigram";
  return Get(model, "continuing_subword_prefix").is_string() ? "WordPiece" : "WordLevel";
}

absl::Status ParseModel(const Json& model, TokenizerParts* parts) {
  if (!model.is_object()) return Invalid("has no 'model'");
  const std::string type = ModelTypeOf(model);
  if (type != "BPE" && type != "WordPiece" && type != "WordLevel" && type != "Unigram") {
    return Unsupported("model", type, "BPE, WordPiece, WordLevel, Unigram");
  }
  const bool is_byte_level = parts->pre_tokenizer.is_byte_level();
  if (type != "BPE" && is_byte_level)
    return Invalid(absl::StrCat("a ", type, " of ByteLevel's bytes is not supported"));
  if (type == "Unigram") {
    DISTILL_ASSIGN_OR_RETURN(parts->model, ParseUnigram(model, &parts->vocab));
    return absl::OkStatus();
  }
  DISTILL_RETURN_IF_ERROR(ParseVocabulary(Get(model, "vocab"), &parts->vocab));
  if (type == "BPE") {
    DISTILL_ASSIGN_OR_RETURN(parts->model, ParseBpe(model, parts->vocab, is_byte_level));
  } else if (type == "WordPiece") {
    DISTILL_ASSIGN_OR_RETURN(parts->model, ParseWordPiece(model, parts->vocab));
  } else {
    DISTILL_ASSIGN_OR_RETURN(const std::string unk, UnkTokenOf(model, "<unk>"));
    DISTILL_ASSIGN_OR_RETURN(parts->model, MakeWordLevel(parts->vocab, unk));
  }
  return absl::OkStatus();
}

absl::Status ParseAddedTokens(const Json& json, std::vector<AddedToken>* tokens) {
  if (json.is_null()) return absl::OkStatus();
  if (!json.is_array()) return Invalid("'added_tokens' is no list");
  for (const Json& entry : json) {
    DISTILL_ASSIGN_OR_RETURN(AddedToken token, AddedTokenOf(entry, absl::StrCat("added token ", tokens->size())));
    DISTILL_ASSIGN_OR_RETURN(token.id, GetId(Get(entry, "id"), token.content));
    tokens->push_back(std::move(token));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerParts> ParseTokenizerJson(const TokenizerTexts& texts) {
  DISTILL_ASSIGN_OR_RETURN(Json json, ParseObject(texts.tokenizer_json));
  TokenizerParts parts;
  DISTILL_ASSIGN_OR_RETURN(parts.tokenizer_config, ApplyTokenizerClass(texts, &json));
  absl::StatusOr<PreTokenizer> pre_tokenizer = PreTokenizer::Parse(Get(json, "pre_tokenizer"));
  if (pre_tokenizer.ok()) parts.pre_tokenizer = *pre_tokenizer;
  // The model first: of several unsupported parts it is the one that says what this tokenizer is.
  DISTILL_RETURN_IF_ERROR(ParseModel(Get(json, "model"), &parts));
  DISTILL_RETURN_IF_ERROR(pre_tokenizer.status());
  DISTILL_ASSIGN_OR_RETURN(parts.normalizer, Normalizer::Parse(Get(json, "normalizer")));
  DISTILL_ASSIGN_OR_RETURN(parts.post_processor, PostProcessor::Parse(Get(json, "post_processor")));
  DISTILL_ASSIGN_OR_RETURN(parts.decoder, TokenDecoder::Parse(Get(json, "decoder")));
  DISTILL_RETURN_IF_ERROR(ParseAddedTokens(Get(json, "added_tokens"), &parts.added_tokens));
  return parts;
}

}  // namespace distill
