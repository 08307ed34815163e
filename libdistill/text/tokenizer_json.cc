#include "libdistill/text/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/byte_pair_encoder.h"
#include "libdistill/text/json_fields.h"

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

// Old files do not name the model: one with merges is BPE, one with a prefix is WordPiece.
std::string ModelTypeOf(const Json& model) {
  if (!Get(model, "type").is_null()) return TypeOf(model);
  if (Get(model, "merges").is_array()) return "BPE";
  return Get(model, "continuing_subword_prefix").is_string() ? "WordPiece" : "WordLevel";
}

absl::Status ParseModel(const Json& model, TokenizerParts* parts) {
  if (!model.is_object()) return Invalid("has no 'model'");
  const std::string type = ModelTypeOf(model);
  if (type != "BPE" && type != "WordPiece" && type != "WordLevel") {
    return Unsupported("model", type, "BPE, WordPiece, WordLevel");
  }
  const bool is_byte_level = parts->pre_tokenizer.is_byte_level();
  if (type != "BPE" && is_byte_level)
    return Invalid(absl::StrCat("a ", type, " of ByteLevel's bytes is not supported"));
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

absl::StatusOr<TokenizerParts> ParseTokenizerJson(const std::string& text) {
  DISTILL_ASSIGN_OR_RETURN(const Json json, ParseObject(text));
  TokenizerParts parts;
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
