#include "libdistill/text/tokenizer_class.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr const char* kBar = "\u2581";  // SentencePiece's space

// By the rules of AutoTokenizer.from_pretrained for the models that are known here; "": none of its own.
std::string ClassOf(const Json& tokenizer_config, const Json& config) {
  const Json& type = Get(config, "model_type");
  const Json& said = Get(tokenizer_config, "tokenizer_class");
  const std::string model = type.is_string() ? type.get<std::string>() : "";
  const std::string name = said.is_string() ? said.get<std::string>() : "";
  if (model == "qwen2") return "Qwen2Tokenizer";  // whatever the file says
  if (name.empty() && (model == "bert" || model == "distilbert")) return "BertTokenizer";
  if (name.empty() && model == "gpt2") return "GPT2Tokenizer";
  static const auto* const known =
      new absl::flat_hash_set<std::string>{"", "bert", "distilbert", "gpt2", "gpt_neox", "llama", "qwen3", "roberta"};
  return known->contains(model) ? std::string(absl::StripSuffix(name, "Fast")) : "";
}

// Each step of a pre-tokenizer or normalizer, which may be a Sequence.
template <typename Visit>
void ForEachStep(Json& part, const char* key, const Visit& visit) {
  if (TypeOf(part) != "Sequence" || !part.contains(key) || !part[key].is_array()) return visit(part);
  for (Json& step : part[key]) visit(step);
}

bool HasStep(Json part, const char* key, const std::string& type) {
  bool has = false;
  ForEachStep(part, key, [&](Json& step) { has = has || TypeOf(step) == type; });
  return has;
}

absl::Status ApplyToBytes(const Json& config, Json& tokenizer) {
  DISTILL_ASSIGN_OR_RETURN(const bool add_prefix_space, GetBool(config, "add_prefix_space", false));
  ForEachStep(tokenizer["pre_tokenizer"], "pretokenizers", [&](Json& step) {
    if (TypeOf(step) == "ByteLevel") step["add_prefix_space"] = add_prefix_space;
  });
  if (TypeOf(tokenizer["post_processor"]) == "RobertaProcessing") {
    tokenizer["post_processor"]["add_prefix_space"] = add_prefix_space;
  }
  return absl::OkStatus();
}

absl::Status ApplyToLlama(const Json& config, Json& tokenizer) {
  if (!Get(Get(tokenizer, "model"), "merges").is_array()) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const bool add_prefix_space, GetBool(config, "add_prefix_space", true));
  DISTILL_ASSIGN_OR_RETURN(const bool is_legacy, GetBool(config, "legacy", false));
  Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", kBar}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (add_prefix_space) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  tokenizer["normalizer"] = nullptr;
  tokenizer["pre_tokenizer"] = {{"type", "Metaspace"},
                                {"replacement", kBar},
                                {"prepend_scheme", !add_prefix_space ? "never"
                                                   : is_legacy       ? "always"
                                                                     : "first"},
                                {"add_prefix_space", add_prefix_space},
                                {"split", false}};
  tokenizer["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  Json& model = tokenizer["model"];
  model["fuse_unk"] = true;
  model["byte_fallback"] = true;
  model["unk_token"] = nullptr;
  return absl::OkStatus();
}

absl::Status ApplyToBert(const Json& config, Json& tokenizer) {
  DISTILL_ASSIGN_OR_RETURN(const bool lower, GetBool(config, "do_lower_case", true));
  DISTILL_ASSIGN_OR_RETURN(const bool chinese, GetBool(config, "tokenize_chinese_chars", true));
  const Json& accents = Get(config, "strip_accents");
  if (!accents.is_null() && !accents.is_boolean()) return Invalid("'strip_accents' is neither true nor false");
  ForEachStep(tokenizer["normalizer"], "normalizers", [&](Json& step) {
    if (TypeOf(step) != "BertNormalizer") return;
    step["clean_text"] = true;
    step["lowercase"] = lower;
    step["handle_chinese_chars"] = chinese;
    step["strip_accents"] = accents;
  });
  return absl::OkStatus();
}

// The special tokens that a class has where no file names any.
using Tokens = std::vector<std::pair<const char*, const char*>>;
const Tokens& TokensOf(const std::string& name) {
  static const Tokens* const bert = new Tokens{{"unk_token", "[UNK]"},
                                               {"sep_token", "[SEP]"},
                                               {"pad_token", "[PAD]"},
                                               {"cls_token", "[CLS]"},
                                               {"mask_token", "[MASK]"}};
  static const Tokens* const gpt2 =
      new Tokens{{"unk_token", "<|endoftext|>"}, {"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}};
  static const Tokens* const neox = new Tokens{{"unk_token", "<|endoftext|>"},
                                               {"bos_token", "<|endoftext|>"},
                                               {"eos_token", "<|endoftext|>"},
                                               {"pad_token", "<|padding|>"}};
  static const Tokens* const qwen2 =
      new Tokens{{"unk_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}, {"pad_token", "<|endoftext|>"}};
  static const Tokens* const roberta =
      new Tokens{{"bos_token", "<s>"},   {"eos_token", "</s>"},  {"sep_token", "</s>"},   {"cls_token", "<s>"},
                 {"unk_token", "<unk>"}, {"pad_token", "<pad>"}, {"mask_token", "<mask>"}};
  static const Tokens* const llama = new Tokens{{"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
  static const Tokens* const none = new Tokens();
  static const auto* const by_class = new absl::flat_hash_map<std::string, const Tokens*>{
      {"BertTokenizer", bert},       {"DistilBertTokenizer", bert}, {"GPT2Tokenizer", gpt2},
      {"CodeGenTokenizer", gpt2},    {"GPTNeoXTokenizer", neox},    {"Qwen2Tokenizer", qwen2},
      {"RobertaTokenizer", roberta}, {"BartTokenizer", roberta},    {"LlamaTokenizer", llama}};
  const auto found = by_class->find(name);
  return found == by_class->end() ? *none : *found->second;
}

absl::StatusOr<Json> ObjectOf(const std::string& text, absl::string_view name) {
  if (text.empty()) return Json::object();
  absl::StatusOr<Json> json = ParseObject(text);
  if (!json.ok()) return Annotate(json.status(), name);
  return json;
}

}  // namespace

absl::StatusOr<std::string> ApplyTokenizerClass(const TokenizerTexts& texts, Json* tokenizer) {
  DISTILL_ASSIGN_OR_RETURN(Json said, ObjectOf(texts.tokenizer_config, "its tokenizer_config.json"));
  DISTILL_ASSIGN_OR_RETURN(const Json config, ObjectOf(texts.config, "its config.json"));
  const std::string name = ClassOf(said, config);
  const bool is_bytes = HasStep(Get(*tokenizer, "pre_tokenizer"), "pretokenizers", "ByteLevel");
  // AutoTokenizer, too, leaves those of Llama 3 as they are.
  if (name.empty() || (name == "LlamaTokenizer" && is_bytes)) return texts.tokenizer_config;
  absl::Status status;
  if (name == "LlamaTokenizer") status = ApplyToLlama(said, *tokenizer);
  if (name == "BertTokenizer" || name == "DistilBertTokenizer") status = ApplyToBert(said, *tokenizer);
  if (is_bytes && !TokensOf(name).empty()) status = ApplyToBytes(said, *tokenizer);
  if (!status.ok()) return Annotate(status, "its tokenizer_config.json");
  for (const auto& [key, token] : TokensOf(name)) {
    if (!said.contains(key)) said[key] = token;
  }
  return said.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace distill
