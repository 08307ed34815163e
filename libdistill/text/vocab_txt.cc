#include "libdistill/text/vocab_txt.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/json_fields.h"

namespace distill {
namespace {

Json VocabularyOf(const std::string& text) {
  Json vocab = Json::object();
  int32_t id = 0;
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    absl::ConsumeSuffix(&line, "\r");
    vocab[std::string(line)] = id++;  // of a token that stands there twice, the last line counts
  }
  return vocab;
}

absl::StatusOr<Json> Piece(const Json& vocab, const std::string& token, int type, Json* tokens) {
  const Json& id = Get(vocab, token.c_str());
  if (id.is_null()) {
    return Invalid(absl::StrCat("has no line '", token,
                                "': a vocab.txt is BERT's, which puts that token around texts; "
                                "for another model save a tokenizer.json with transformers' save_pretrained"));
  }
  (*tokens)[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  return Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
}

Json Text(const char* name, int type) { return {{"Sequence", {{"id", name}, {"type_id", type}}}}; }

absl::StatusOr<Json> PostProcessorOf(const Json& vocab, const std::string& cls, const std::string& sep) {
  Json tokens = Json::object();
  DISTILL_ASSIGN_OR_RETURN(const Json begin, Piece(vocab, cls, 0, &tokens));
  DISTILL_ASSIGN_OR_RETURN(const Json end, Piece(vocab, sep, 0, &tokens));
  DISTILL_ASSIGN_OR_RETURN(const Json second_end, Piece(vocab, sep, 1, &tokens));
  return Json{{"type", "TemplateProcessing"},
              {"single", {begin, Text("A", 0), end}},
              {"pair", {begin, Text("A", 0), end, Text("B", 1), second_end}},
              {"special_tokens", tokens}};
}

}  // namespace

absl::Status CompleteFromVocab(const std::string& vocab_text, TokenizerTexts* texts) {
  if (!IsValidUtf8(vocab_text)) return absl::DataLossError("is not UTF-8");
  const Json vocab = VocabularyOf(vocab_text);
  DISTILL_ASSIGN_OR_RETURN(Json config, ParseObjectOrNone(texts->tokenizer_config));
  DISTILL_ASSIGN_OR_RETURN(const Json map, ParseObjectOrNone(texts->special_tokens_map));
  for (const auto& [name, token] :
       {std::pair("unk_token", "[UNK]"), std::pair("sep_token", "[SEP]"), std::pair("pad_token", "[PAD]"),
        std::pair("cls_token", "[CLS]"), std::pair("mask_token", "[MASK]")}) {
    if (Get(config, name).is_null()) config[name] = Get(map, name).is_null() ? Json(token) : Get(map, name);
  }
  DISTILL_ASSIGN_OR_RETURN(const Json post_processor, PostProcessorOf(vocab, TokenContent(config["cls_token"]),
                                                                      TokenContent(config["sep_token"])));
  const Json tokenizer{
      {"model", {{"type", "WordPiece"}, {"unk_token", TokenContent(config["unk_token"])}, {"vocab", vocab}}},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"lowercase", config.value("do_lower_case", Json(true))},
        {"handle_chinese_chars", config.value("tokenize_chinese_chars", Json(true))},
        {"strip_accents", Get(config, "strip_accents")}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor", post_processor},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
  texts->tokenizer_json = tokenizer.dump();
  texts->tokenizer_config = config.dump();
  return absl::OkStatus();
}

}  // namespace distill
