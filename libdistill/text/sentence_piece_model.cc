#include "libdistill/text/sentence_piece_model.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/proto/sentencepiece_messages.h"
#include "libdistill/text/json_fields.h"
#include "libdistill/text/sentence_piece_parts.h"

namespace distill {
namespace {

// Models whose published tokenizer_class transformers overrules.
constexpr const char* kOwnClassIsWrong[] = {"mistral", "mistral3", "mixtral",   "ministral", "ministral3", "phi3",
                                            "phi3_v",  "phimoe",   "internlm2", "internlm3", "minicpm3",   "nemotron"};

absl::StatusOr<SentencePieceRules> RulesOf(const Json& tokenizer_config, const Json& config) {
  const auto text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : ""; };
  const std::string model_type = text(Get(config, "model_type"));
  std::string name = text(Get(tokenizer_config, "tokenizer_class"));
  if (name.empty()) name = text(Get(config, "tokenizer_class"));
  name = std::string(absl::StripSuffix(name, "Fast"));
  const bool is_wrong =
      std::find(std::begin(kOwnClassIsWrong), std::end(kOwnClassIsWrong), model_type) != std::end(kOwnClassIsWrong);
  if (is_wrong) return SentencePieceRules::kModel;
  if (name == "LlamaTokenizer") return SentencePieceRules::kLlama;
  if (name == "GemmaTokenizer" || (name.empty() && absl::StartsWith(model_type, "gemma")))
    return SentencePieceRules::kGemma;
  if (name == "T5Tokenizer" || (name.empty() && (model_type == "t5" || model_type == "mt5")))
    return SentencePieceRules::kT5;
  if (name.empty() || name == "TokenizersBackend" || name == "PreTrainedTokenizer") return SentencePieceRules::kModel;
  return Invalid(absl::StrCat("tokenizer_class '", name,
                              "' is not supported of a tokenizer.model; supported: LlamaTokenizer, GemmaTokenizer, "
                              "T5Tokenizer, TokenizersBackend. Save a tokenizer.json with transformers' "
                              "save_pretrained"));
}

absl::Status CheckModel(const SentencePieceModel& model) {
  if (model.algorithm != SentencePieceModel::Algorithm::kUnigram &&
      model.algorithm != SentencePieceModel::Algorithm::kBytePair) {
    const bool is_words = model.algorithm == SentencePieceModel::Algorithm::kWords;
    return Invalid(absl::StrCat("a SentencePiece model of type ", is_words ? "word" : "char",
                                " is not supported; supported: unigram, bpe"));
  }
  if (model.unk_id < 0 || model.unk_id >= static_cast<int64_t>(model.pieces.size())) {
    return Invalid(absl::StrCat("the unknown piece has id ", model.unk_id, ", and there are ", model.pieces.size()));
  }
  absl::flat_hash_map<absl::string_view, size_t> ids;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    if (!IsValidUtf8(piece.text)) return absl::DataLossError(absl::StrCat("piece ", id, " is not UTF-8"));
    if (piece.text.empty()) return Invalid(absl::StrCat("piece ", id, " is empty"));
    if (!std::isfinite(piece.score)) return Invalid(absl::StrCat("piece ", id, " has a score that is not finite"));
    if (const auto [known, fresh] = ids.emplace(piece.text, id); !fresh) {
      return Invalid(absl::StrCat("pieces ", known->second, " and ", id, " are both '", piece.text, "'"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> FileOrNone(const char* name, const std::string& text) {
  absl::StatusOr<Json> object = ParseObjectOrNone(text);
  if (!object.ok()) return Annotate(object.status(), absl::StrCat("its ", name));
  return object;
}

// The names that the class, or the model, gives where no file does.
std::vector<std::pair<const char*, std::string>> NamesOf(const SentencePieceModel& model, SentencePieceRules rules) {
  switch (rules) {
    case SentencePieceRules::kLlama:
      return {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
    case SentencePieceRules::kGemma:
      return {{"bos_token", "<bos>"},
              {"eos_token", "<eos>"},
              {"unk_token", "<unk>"},
              {"pad_token", "<pad>"},
              {"mask_token", "<mask>"}};
    case SentencePieceRules::kT5:
      return {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};
    case SentencePieceRules::kModel:
      break;
  }
  std::vector<std::pair<const char*, std::string>> names = {{"unk_token", model.unk_piece}};
  if (model.bos_id >= 0) names.emplace_back("bos_token", model.bos_piece);
  if (model.eos_id >= 0) names.emplace_back("eos_token", model.eos_piece);
  return names;
}

// T5's sentinels stand behind all pieces, the last one first.
void AddSentinels(int64_t count, SentencePieceModel* model) {
  for (int64_t i = count - 1; i >= 0; --i) {
    model->pieces.push_back({absl::StrCat("<extra_id_", i, ">"), 0, SentencePieceModel::Kind::kControl});
  }
}

}  // namespace

absl::Status CompleteFromSentencePiece(const std::string& bytes, TokenizerTexts* texts) {
  DISTILL_ASSIGN_OR_RETURN(SentencePieceModel model, ParseSentencePieceModel(bytes));
  DISTILL_ASSIGN_OR_RETURN(Json config, FileOrNone("tokenizer_config.json", texts->tokenizer_config));
  DISTILL_ASSIGN_OR_RETURN(const Json map, FileOrNone("special_tokens_map.json", texts->special_tokens_map));
  DISTILL_ASSIGN_OR_RETURN(const Json model_config, FileOrNone("config.json", texts->config));
  DISTILL_ASSIGN_OR_RETURN(const SentencePieceRules rules, RulesOf(config, model_config));
  DISTILL_RETURN_IF_ERROR(CheckModel(model));
  const bool is_unigram = model.algorithm == SentencePieceModel::Algorithm::kUnigram;
  if (is_unigram != (rules == SentencePieceRules::kT5) && rules != SentencePieceRules::kModel) {
    return Invalid(absl::StrCat("a SentencePiece model of type ", is_unigram ? "unigram" : "bpe",
                                " does not fit the tokenizer_class: T5Tokenizer's is unigram, those of Llama and Gemma "
                                "are bpe"));
  }
  if (rules == SentencePieceRules::kT5) {
    const Json& sentinels = Get(config, "extra_ids");
    const bool is_count = sentinels.is_number_unsigned() && sentinels.get<uint64_t>() <= 10000;
    if (!sentinels.is_null() && !is_count) return Invalid("'extra_ids' is no count of sentinels (0 to 10000)");
    AddSentinels(sentinels.is_null() ? 100 : sentinels.get<int64_t>(), &model);
  }
  for (const auto& [name, token] : NamesOf(model, rules)) {
    if (Get(config, name).is_null()) config[name] = Get(map, name).is_null() ? Json(token) : Get(map, name);
  }
  DISTILL_ASSIGN_OR_RETURN(const bool prefix, GetBool(config, "add_prefix_space", true));
  DISTILL_ASSIGN_OR_RETURN(const bool legacy, GetBool(config, "legacy", false));
  DISTILL_ASSIGN_OR_RETURN(const bool begins, GetBool(config, "add_bos_token", false));
  DISTILL_ASSIGN_OR_RETURN(const bool ends, GetBool(config, "add_eos_token", false));
  const std::string bos = TokenContent(config["bos_token"]), eos = TokenContent(config["eos_token"]);
  SentencePieceOptions options{.rules = rules, .prefix = prefix, .legacy = legacy};
  if (begins && rules != SentencePieceRules::kT5) options.before = bos;
  if (ends || rules == SentencePieceRules::kT5) options.behind = eos;
  DISTILL_ASSIGN_OR_RETURN(const Json tokenizer, TokenizerJsonOf(model, options));
  texts->tokenizer_json = tokenizer.dump();
  texts->tokenizer_config = config.dump();
  return absl::OkStatus();
}

}  // namespace distill
