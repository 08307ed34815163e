#include "libdistill/text/sentence_piece_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/json_fields.h"

namespace distill {
namespace {

using Kind = SentencePieceModel::Kind;

constexpr char kSpace[] = "\xE2\x96\x81";  // U+2581, which stands for a space

// Every way to make a piece out of two others, by the piece's id: the order in which SentencePiece learned them.
Json MergesOf(const std::vector<SentencePieceModel::Piece>& pieces) {
  absl::flat_hash_set<absl::string_view> known;
  for (const SentencePieceModel::Piece& piece : pieces) known.insert(piece.text);
  Json merges = Json::array();
  for (const SentencePieceModel::Piece& piece : pieces) {
    const absl::string_view text = piece.text;
    for (size_t at = 1; at < text.size(); ++at) {
      if ((text[at] & 0xC0) == 0x80) continue;  // within a character
      if (!known.contains(text.substr(0, at)) || !known.contains(text.substr(at))) continue;
      merges.push_back({std::string(text.substr(0, at)), std::string(text.substr(at))});
    }
  }
  return merges;
}

Json ModelOf(const SentencePieceModel& model, SentencePieceRules rules) {
  if (model.algorithm == SentencePieceModel::Algorithm::kUnigram) {
    Json vocab = Json::array();
    for (const auto& piece : model.pieces) vocab.push_back({piece.text, piece.score});
    return {{"type", "Unigram"},
            {"unk_id", rules == SentencePieceRules::kT5 ? 2 : model.unk_id},
            {"vocab", std::move(vocab)},
            {"byte_fallback", rules == SentencePieceRules::kModel && model.byte_fallback}};
  }
  Json vocab = Json::object();
  for (size_t id = 0; id < model.pieces.size(); ++id) vocab[model.pieces[id].text] = id;
  Json merges = MergesOf(model.pieces);
  return {{"type", "BPE"},
          {"unk_token", rules == SentencePieceRules::kLlama
                            ? Json()
                            : Json(rules == SentencePieceRules::kGemma ? "<unk>" : model.unk_piece)},
          {"fuse_unk", true},
          {"byte_fallback", rules != SentencePieceRules::kModel || model.byte_fallback},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

Json Replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json Metaspace(const char* prepend_scheme, bool split) {
  return {{"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", prepend_scheme}, {"split", split}};
}

Json NormalizerOf(const SentencePieceModel& model, SentencePieceRules rules) {
  const Json charsmap = model.charsmap.empty() ? Json()
                                               : Json{{"type", "Precompiled"},
                                                      {"precompiled_charsmap", absl::Base64Escape(model.charsmap)}};
  if (rules == SentencePieceRules::kLlama) return nullptr;
  if (rules == SentencePieceRules::kGemma) return Replace(" ", kSpace);
  if (rules == SentencePieceRules::kT5) return charsmap;
  Json all = Json::array();
  if (!charsmap.is_null()) all.push_back(charsmap);
  all.push_back(Replace(" ", kSpace));
  return {{"type", "Sequence"}, {"normalizers", std::move(all)}};
}

Json PreTokenizerOf(SentencePieceRules rules, const char* prepend_scheme) {
  if (rules == SentencePieceRules::kLlama) return Metaspace(prepend_scheme, false);
  if (rules == SentencePieceRules::kGemma) {
    return {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  }
  if (rules != SentencePieceRules::kT5) return nullptr;
  return {{"type", "Sequence"}, {"pretokenizers", {{{"type", "WhitespaceSplit"}}, Metaspace("always", true)}}};
}

Json DecoderOf(SentencePieceRules rules, bool byte_fallback, bool strips) {
  if (rules == SentencePieceRules::kT5) return Metaspace("always", true);
  Json all = Json::array({Replace(kSpace, " ")});
  if (byte_fallback) {
    all.push_back({{"type", "ByteFallback"}});
    all.push_back({{"type", "Fuse"}});
  }
  if (strips) all.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(all)}};
}

// Control pieces are special tokens, those of users are added ones.
Json AddedTokensOf(const SentencePieceModel& model) {
  Json added = Json::array();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Kind kind = model.pieces[id].kind;
    if (kind != Kind::kControl && kind != Kind::kUserDefined) continue;
    added.push_back(
        {{"id", id}, {"content", model.pieces[id].text}, {"special", kind == Kind::kControl}, {"normalized", false}});
  }
  return added;
}

class TemplateMaker {
 public:
  explicit TemplateMaker(const SentencePieceModel& model) : model_(model) {}

  absl::Status AddToken(const std::string& token, int type, Json* to) {
    const auto piece = std::find_if(model_.pieces.begin(), model_.pieces.end(),
                                    [&](const SentencePieceModel::Piece& other) { return other.text == token; });
    if (piece == model_.pieces.end()) {
      return Invalid(absl::StrCat("has no piece '", token,
                                  "', which is to stand around texts; name another one as "
                                  "bos_token or eos_token in tokenizer_config.json"));
    }
    tokens_[token] = {
        {"id", token}, {"ids", Json::array({piece - model_.pieces.begin()})}, {"tokens", Json::array({token})}};
    to->push_back({{"SpecialToken", {{"id", token}, {"type_id", type}}}});
    return absl::OkStatus();
  }
  static void AddText(const char* name, int type, Json* to) {
    to->push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
  }
  Json Make(Json single, Json pair) {
    return {{"type", "TemplateProcessing"},
            {"single", std::move(single)},
            {"pair", std::move(pair)},
            {"special_tokens", std::move(tokens_)}};
  }

 private:
  const SentencePieceModel& model_;
  Json tokens_ = Json::object();
};

// `bos` and `eos`: empty, or what is put around each text.
absl::StatusOr<Json> PostProcessorOf(const SentencePieceModel& model, const std::string& bos, const std::string& eos,
                                     int type_of_second) {
  TemplateMaker maker(model);
  Json single = Json::array(), pair = Json::array();
  const auto add = [&](const char* text, int type, Json* to) -> absl::Status {
    if (!bos.empty()) DISTILL_RETURN_IF_ERROR(maker.AddToken(bos, type, to));
    maker.AddText(text, type, to);
    return eos.empty() ? absl::OkStatus() : maker.AddToken(eos, type, to);
  };
  DISTILL_RETURN_IF_ERROR(add("A", 0, &single));
  DISTILL_RETURN_IF_ERROR(add("A", 0, &pair));
  DISTILL_RETURN_IF_ERROR(add("B", type_of_second, &pair));
  return maker.Make(std::move(single), std::move(pair));
}

}  // namespace

absl::StatusOr<Json> TokenizerJsonOf(const SentencePieceModel& model, const SentencePieceOptions& options) {
  const SentencePieceRules rules = options.rules;
  const char* const prepend_scheme = !options.prefix ? "never" : options.legacy ? "always" : "first";
  DISTILL_ASSIGN_OR_RETURN(Json post_processor, PostProcessorOf(model, options.before, options.behind,
                                                                rules == SentencePieceRules::kT5 ? 0 : 1));
  return Json{{"model", ModelOf(model, rules)},
              {"normalizer", NormalizerOf(model, rules)},
              {"pre_tokenizer", PreTokenizerOf(rules, prepend_scheme)},
              {"post_processor", std::move(post_processor)},
              {"decoder", DecoderOf(rules, rules != SentencePieceRules::kModel || model.byte_fallback,
                                    rules == SentencePieceRules::kLlama && options.prefix)},
              {"added_tokens", AddedTokensOf(model)}};
}

}  // namespace distill
