#include "libdistill/text/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/json_fields.h"

namespace distill {
namespace {

constexpr int kMaxSequenceDepth = 4;

// GPT-2's pattern, which ByteLevel with use_regex stands for.
constexpr char kGpt2Pattern[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

absl::Status Unsupported(absl::string_view part, absl::string_view kind, absl::string_view supported) {
  return Invalid(absl::StrCat(part, " '", kind, "' is not supported; supported: ", supported));
}

// Calls visit(part) for each part of a "Sequence" (members under `key`), or for `part` alone.
template <typename Visit>
absl::Status ForEachOf(const Json& part, const char* key, const Visit& visit, int depth = 0) {
  if (part.is_null()) return absl::OkStatus();
  if (TypeOf(part) != "Sequence") return visit(part);
  if (depth == kMaxSequenceDepth) return Invalid("Sequences are nested too deep");
  const Json& members = Get(part, key);
  if (!members.is_array()) return Invalid(absl::StrCat("a Sequence has no list '", key, "'"));
  for (const Json& member : members) DISTILL_RETURN_IF_ERROR(ForEachOf(member, key, visit, depth + 1));
  return absl::OkStatus();
}

absl::Status ParseNormalizer(const Json& json, TokenizerSpec* spec) {
  return ForEachOf(json, "normalizers", [spec](const Json& part) {
    if (TypeOf(part) != "NFC") return Unsupported("normalizer", TypeOf(part), "NFC, none");
    spec->nfc = true;
    return absl::OkStatus();
  });
}

absl::StatusOr<PreTokenizerStep> ParseSplit(const Json& part) {
  const Json& pattern = Get(Get(part, "pattern"), "Regex");
  if (!pattern.is_string() || pattern.get_ref<const std::string&>().empty()) {
    return Unsupported("pre_tokenizer Split", Get(part, "pattern").dump(-1, ' ', true, Json::error_handler_t::replace),
                       "{\"Regex\": pattern}");
  }
  PreTokenizerStep step;
  step.pattern = pattern.get<std::string>();
  const Json& behavior = Get(part, "behavior");
  DISTILL_ASSIGN_OR_RETURN(const bool invert, GetBool(part, "invert", false));
  if (behavior == "Removed") {
    (invert ? step.keep_rest : step.keep_matches) = false;
  } else if (behavior != "Isolated") {
    return Unsupported("pre_tokenizer Split behavior", behavior.is_string() ? behavior.get<std::string>() : "",
                       "Isolated, Removed");
  }
  return step;
}

absl::Status ParsePreTokenizer(const Json& json, TokenizerSpec* spec) {
  bool byte_level = false;
  DISTILL_RETURN_IF_ERROR(ForEachOf(json, "pretokenizers", [&](const Json& part) -> absl::Status {
    const std::string type = TypeOf(part);
    PreTokenizerStep step;
    if (byte_level) return Invalid("a pre_tokenizer after ByteLevel is not supported");
    if (type == "Split") {
      DISTILL_ASSIGN_OR_RETURN(step, ParseSplit(part));
    } else if (type == "Digits") {
      DISTILL_ASSIGN_OR_RETURN(const bool individual, GetBool(part, "individual_digits", false));
      step.pattern = individual ? "\\p{N}" : "\\p{N}+";
    } else if (type == "ByteLevel") {
      byte_level = true;
      DISTILL_ASSIGN_OR_RETURN(step.add_prefix_space, GetBool(part, "add_prefix_space", true));
      DISTILL_ASSIGN_OR_RETURN(const bool use_regex, GetBool(part, "use_regex", true));
      if (use_regex) step.pattern = kGpt2Pattern;
    } else {
      return Unsupported("pre_tokenizer", type, "ByteLevel, Split, Digits, and a Sequence of them");
    }
    spec->steps.push_back(std::move(step));
    return absl::OkStatus();
  }));
  if (!byte_level) return Invalid("no ByteLevel pre_tokenizer: only byte-level BPE is supported");
  return absl::OkStatus();
}

absl::Status CheckPostProcessor(const Json& json) {
  return ForEachOf(json, "processors", [](const Json& part) {
    const std::string type = TypeOf(part);
    if (type == "ByteLevel" || type == "TemplateProcessing") return absl::OkStatus();
    return Unsupported("post_processor", type, "ByteLevel, TemplateProcessing, and a Sequence of them");
  });
}

absl::Status CheckDecoder(const Json& json) {
  bool byte_level = false;
  DISTILL_RETURN_IF_ERROR(ForEachOf(json, "decoders", [&byte_level](const Json& part) {
    if (TypeOf(part) != "ByteLevel") return Unsupported("decoder", TypeOf(part), "ByteLevel");
    byte_level = true;
    return absl::OkStatus();
  }));
  return byte_level ? absl::OkStatus() : Invalid("no ByteLevel decoder: only byte-level BPE is supported");
}

absl::Status ParseMerges(const Json& merges, BpeSpec* bpe) {
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

// Options of the model that would change its ids; none of them occurs in byte-level tokenizers.
absl::Status RefuseModelOptions(const Json& model) {
  const Json& dropout = Get(model, "dropout");
  if (!dropout.is_null() && dropout != 0.0) return Unsupported("the model's", "dropout", "none");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& value = Get(model, key);
    if (!value.is_null() && value != "") return Unsupported("the model's", key, "none");
  }
  DISTILL_ASSIGN_OR_RETURN(const bool byte_fallback, GetBool(model, "byte_fallback", false));
  return byte_fallback ? Unsupported("the model's", "byte_fallback", "false") : absl::OkStatus();
}

absl::Status ParseModel(const Json& model, BpeSpec* bpe) {
  if (!model.is_object()) return Invalid("has no 'model'");
  if (Get(model, "type") != "BPE" && !(Get(model, "type").is_null() && Get(model, "merges").is_array())) {
    return Unsupported("model", TypeOf(model), "BPE");
  }
  DISTILL_RETURN_IF_ERROR(RefuseModelOptions(model));
  const Json& vocab = Get(model, "vocab");
  if (!vocab.is_object()) return Invalid("the model has no 'vocab'");
  bpe->vocab.reserve(vocab.size());
  for (const auto& [token, value] : vocab.items()) {
    DISTILL_ASSIGN_OR_RETURN(const int32_t id, GetId(value, token));
    bpe->vocab.emplace(token, id);
  }
  const Json& unk = Get(model, "unk_token");
  if (!unk.is_null() && !unk.is_string()) return Invalid("the model's 'unk_token' is no string");
  if (unk.is_string()) bpe->unk_token = unk.get<std::string>();
  DISTILL_ASSIGN_OR_RETURN(bpe->fuse_unk, GetBool(model, "fuse_unk", false));
  DISTILL_ASSIGN_OR_RETURN(bpe->ignore_merges, GetBool(model, "ignore_merges", false));
  return ParseMerges(Get(model, "merges"), bpe);
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

absl::StatusOr<TokenizerSpec> ParseTokenizerJson(const std::string& text) {
  DISTILL_ASSIGN_OR_RETURN(const Json json, ParseObject(text));
  TokenizerSpec spec;
  // The model first: of several unsupported parts it is the one that says what this tokenizer is.
  DISTILL_RETURN_IF_ERROR(ParseModel(Get(json, "model"), &spec.bpe));
  DISTILL_RETURN_IF_ERROR(ParseNormalizer(Get(json, "normalizer"), &spec));
  DISTILL_RETURN_IF_ERROR(ParsePreTokenizer(Get(json, "pre_tokenizer"), &spec));
  DISTILL_RETURN_IF_ERROR(CheckPostProcessor(Get(json, "post_processor")));
  DISTILL_RETURN_IF_ERROR(CheckDecoder(Get(json, "decoder")));
  DISTILL_RETURN_IF_ERROR(ParseAddedTokens(Get(json, "added_tokens"), &spec.added_tokens));
  return spec;
}

}  // namespace distill
