#include "libdistill/text/special_tokens.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/json_fields.h"

namespace distill {
namespace {

constexpr const char* kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

// All that the files say, before it is added to tokenizer.json's tokens.
struct Said {
  std::map<std::string, AddedToken> named;  // by kNames, and by the model's own "..._token"
  std::vector<AddedToken> extra;
  std::map<int32_t, AddedToken> by_id;
};

// "..." or {"content": ...}; nullopt: none.
absl::StatusOr<std::optional<AddedToken>> TokenOf(const Json& value, absl::string_view key) {
  if (value.is_null() || value == "") return std::nullopt;
  if (!value.is_string()) {
    absl::StatusOr<AddedToken> token = AddedTokenOf(value, absl::StrCat("'", key, "'"));
    if (!token.ok()) return Invalid(absl::StrCat("'", key, "' is neither a string nor an object with 'content'"));
    token->normalized = value.contains("normalized") && token->normalized;
    token->special = true;
    return *token;
  }
  AddedToken token;
  token.content = value.get<std::string>();
  token.special = true;
  return token;
}

absl::Status ReadNamed(const Json& file, bool own_names, Said& said) {
  for (const auto& [key, value] : file.items()) {
    const bool is_known = std::find(std::begin(kNames), std::end(kNames), key) != std::end(kNames);
    if (!is_known && !(own_names && absl::EndsWith(key, "_token") && value.is_string())) continue;
    DISTILL_ASSIGN_OR_RETURN(std::optional<AddedToken> token, TokenOf(value, key));
    if (token) said.named.insert_or_assign(key, *std::move(token));
  }
  return absl::OkStatus();
}

// A list of tokens, or (extra_special_tokens alone) an object of named ones.
// `all_special`: also those that do not say so.
absl::Status ReadExtra(const Json& file, bool all_special, Said& said) {
  const char* const key =
      Get(file, "extra_special_tokens").empty() ? "additional_special_tokens" : "extra_special_tokens";
  const Json& tokens = Get(file, key);
  if (tokens.is_null()) return absl::OkStatus();
  if (!tokens.is_array() && !tokens.is_object()) return Invalid(absl::StrCat("'", key, "' is no list of tokens"));
  for (const auto& [name, value] : tokens.items()) {
    DISTILL_ASSIGN_OR_RETURN(std::optional<AddedToken> token, TokenOf(value, key));
    if (!token) continue;
    if (value.is_object() && !all_special && !tokens.is_object()) {
      DISTILL_ASSIGN_OR_RETURN(*token, AddedTokenOf(value, key));
    }
    if (tokens.is_object()) {
      said.named.insert_or_assign(name, *std::move(token));
    } else {
      said.extra.push_back(*std::move(token));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadAddedTokensDecoder(const Json& tokens, Said& said) {
  if (!tokens.is_object()) return Invalid("'added_tokens_decoder' is no object");
  for (const auto& [id, value] : tokens.items()) {
    int32_t number = 0;
    if (!absl::SimpleAtoi(id, &number)) return Invalid(absl::StrCat("'added_tokens_decoder' has the id '", id, "'"));
    DISTILL_ASSIGN_OR_RETURN(AddedToken token, AddedTokenOf(value, absl::StrCat("'added_tokens_decoder' ", id)));
    said.by_id.insert_or_assign(number, std::move(token));
  }
  return absl::OkStatus();
}

// {"token": id}.
absl::Status ReadAddedTokensJson(const std::string& text, Said& said) {
  if (text.empty()) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const Json json, ParseObject(text));
  std::set<std::string> special;
  for (const auto& [name, token] : said.named) special.insert(token.content);
  for (const AddedToken& token : said.extra) special.insert(token.content);
  for (const auto& [content, id] : json.items()) {
    AddedToken token;
    token.content = content;
    token.special = special.count(content) > 0;
    token.normalized = !token.special;
    DISTILL_ASSIGN_OR_RETURN(const int32_t number, GetId(id, content));
    said.by_id.insert_or_assign(number, std::move(token));
  }
  return absl::OkStatus();
}

absl::Status ReadLegacyFiles(const TokenizerTexts& texts, const std::vector<AddedToken>& added, Said& said) {
  if (!texts.special_tokens_map.empty()) {
    const absl::StatusOr<Json> map = ParseObject(texts.special_tokens_map);
    absl::Status read = map.status();
    if (read.ok()) read = ReadNamed(*map, /*own_names=*/false, said);
    if (read.ok()) read = ReadExtra(*map, /*all_special=*/true, said);
    DISTILL_RETURN_IF_ERROR(Annotate(read, "its special_tokens_map.json"));
  }
  DISTILL_RETURN_IF_ERROR(Annotate(ReadAddedTokensJson(texts.added_tokens, said), "its added_tokens.json"));
  for (const AddedToken& token : added) said.by_id.insert_or_assign(token.id, token);
  return absl::OkStatus();
}

// A string, or a list of {"name", "template"}, of which "default" is taken.
absl::StatusOr<std::string> GetChatTemplate(const Json& value) {
  if (value.is_null()) return std::string();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    for (const Json& entry : value) {
      if (Get(entry, "name") == "default" && Get(entry, "template").is_string()) {
        return Get(entry, "template").get<std::string>();
      }
    }
    return Invalid("'chat_template' is a list without a template named 'default'");
  }
  return Invalid("'chat_template' is neither a string nor a list of templates");
}

bool IsSame(const AddedToken& a, const AddedToken& b) {
  const auto all = [](const AddedToken& t) {
    return std::tie(t.content, t.special, t.normalized, t.lstrip, t.rstrip, t.single_word);
  };
  return all(a) == all(b);
}

// As `tokenizers` adds one: to the token of this content, or behind all others.
void Add(AddedToken token, const Vocabulary& vocab, std::vector<AddedToken>* added) {
  const auto same = [&](const AddedToken& other) { return other.content == token.content; };
  const auto before = std::find_if(added->begin(), added->end(), same);
  if (before != added->end()) {
    token.id = before->id;
    token.special = token.special || before->special;  // what once is special stays it
    *before = std::move(token);
    return;
  }
  if (const auto found = vocab.find(token.content); found != vocab.end()) {
    token.id = found->second;
  } else {
    token.id = static_cast<int32_t>(vocab.size());
    for (const AddedToken& other : *added) token.id = std::max(token.id, other.id + 1);
  }
  added->push_back(std::move(token));
}

void AddAll(const Said& said, const Vocabulary& vocab, std::vector<AddedToken>* added) {
  std::vector<AddedToken> new_ones;
  const auto has = [](const std::vector<AddedToken>& tokens, const AddedToken& token) {
    return std::any_of(tokens.begin(), tokens.end(), [&](const auto& other) { return other.content == token.content; });
  };
  for (const auto& [id, token] : said.by_id) {
    if (std::none_of(added->begin(), added->end(),
                     [&token = token](const auto& other) { return IsSame(other, token); })) {
      new_ones.push_back(token);
    }
  }
  const auto add_missing = [&](const AddedToken& token) {
    if (!has(*added, token) && !has(new_ones, token)) new_ones.push_back(token);
  };
  for (const char* name : kNames) {
    if (const auto found = said.named.find(name); found != said.named.end()) add_missing(found->second);
  }
  for (const auto& [name, token] : said.named) add_missing(token);
  for (const AddedToken& token : said.extra) add_missing(token);
  for (AddedToken& token : new_ones) {
    const auto is_it = [&](const auto& named) { return named.second.content == token.content; };
    if (std::any_of(said.named.begin(), said.named.end(), is_it)) token.special = true;
    Add(std::move(token), vocab, added);
  }
}

}  // namespace

absl::StatusOr<TokenizerConfig> MergeSpecialTokens(const TokenizerTexts& texts, const Vocabulary& vocab,
                                                   std::vector<AddedToken>* added) {
  TokenizerConfig config;
  Said said;
  bool has_decoder = false;
  const auto read_config = [&]() -> absl::Status {
    if (texts.tokenizer_config.empty()) return absl::OkStatus();
    DISTILL_ASSIGN_OR_RETURN(const Json json, ParseObject(texts.tokenizer_config));
    DISTILL_RETURN_IF_ERROR(ReadNamed(json, /*own_names=*/true, said));
    DISTILL_RETURN_IF_ERROR(ReadExtra(json, /*all_special=*/false, said));
    DISTILL_ASSIGN_OR_RETURN(config.chat_template, GetChatTemplate(Get(json, "chat_template")));
    DISTILL_ASSIGN_OR_RETURN(config.split_special_tokens, GetBool(json, "split_special_tokens", false));
    has_decoder = json.contains("added_tokens_decoder");
    return has_decoder ? ReadAddedTokensDecoder(json["added_tokens_decoder"], said) : absl::OkStatus();
  };
  DISTILL_RETURN_IF_ERROR(Annotate(read_config(), "its tokenizer_config.json"));
  if (!has_decoder) DISTILL_RETURN_IF_ERROR(ReadLegacyFiles(texts, *added, said));
  AddAll(said, vocab, added);
  const auto content = [&](const char* name) { return said.named.count(name) > 0 ? said.named.at(name).content : ""; };
  config.bos_token = content("bos_token");
  config.eos_token = content("eos_token");
  config.pad_token = content("pad_token");
  config.unk_token = content("unk_token");
  config.sep_token = content("sep_token");
  config.cls_token = content("cls_token");
  config.mask_token = content("mask_token");
  return config;
}

}  // namespace distill
