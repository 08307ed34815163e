#include "libdistill/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/store/files.h"
#include "libdistill/text/byte_level.h"
#include "libdistill/text/special_tokens.h"
#include "libdistill/text/tokenizer_json.h"
#include "libdistill/text/unicode.h"

namespace distill {
namespace {

struct Entry {
  std::string token;
  std::string bytes;  // what it decodes to
  bool exists = false;
  bool special = false;
};

void SetToken(const std::string& token, Entry* entry) {
  entry->exists = true;
  entry->token = token;
  if (!DecodeByteLevel(token, &entry->bytes)) entry->bytes = token;
}

absl::Status AddEntry(const std::string& token, int32_t id, std::vector<Entry>* entries) {
  if (static_cast<size_t>(id) >= entries->size()) entries->resize(id + 1);
  Entry& entry = (*entries)[id];
  if (entry.exists && entry.token != token) {
    return absl::InvalidArgumentError(
        absl::StrCat("id ", id, " belongs to two tokens, '", entry.token, "' and '", token, "'"));
  }
  SetToken(token, &entry);
  return absl::OkStatus();
}

std::vector<AddedToken> Select(const std::vector<AddedToken>& tokens, const TokenizerConfig& config, bool normalized) {
  std::vector<AddedToken> selected;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(selected), [&](const AddedToken& token) {
    return token.normalized == normalized && !(token.special && config.split_special_tokens);
  });
  return selected;
}

// What a folder without tokenizer.json may hold instead.
absl::Status RefuseOtherTokenizers(const std::string& folder) {
  for (const auto& [name, kind] : {std::pair<const char*, const char*>{"tokenizer.model", "SentencePiece"},
                                   {"vocab.txt", "WordPiece"},
                                   {"vocab.json", "the slow form of BPE"}}) {
    if (!FileExists(JoinPath(folder, name))) continue;
    return absl::InvalidArgumentError(absl::StrCat(folder, ": no tokenizer.json, only ", name, " (", kind,
                                                   "); supported is byte-level BPE in a tokenizer.json, which ",
                                                   "transformers' AutoTokenizer writes with save_pretrained"));
  }
  return absl::OkStatus();
}

}  // namespace

struct Tokenizer::Impl {
  Impl(const TokenizerSpec& spec, TokenizerConfig tokenizer_config, PreTokenizer pre, BytePairEncoder encoder)
      : nfc(spec.nfc),
        raw_tokens(Select(spec.added_tokens, tokenizer_config, false), false),
        normalized_tokens(Select(spec.added_tokens, tokenizer_config, true), spec.nfc),
        pre_tokenizer(std::move(pre)),
        bpe(std::move(encoder)),
        config(std::move(tokenizer_config)) {}

  absl::Status IndexTokens(const TokenizerSpec& spec);
  absl::Status EncodeNormalized(absl::string_view text, PreTokenizer::Words* words, std::vector<int32_t>* ids) const;

  std::string name;  // of tokenizer.json, in messages
  bool nfc;
  AddedTokenMatcher raw_tokens, normalized_tokens;
  PreTokenizer pre_tokenizer;
  BytePairEncoder bpe;
  TokenizerConfig config;
  std::vector<Entry> entries;  // by id
  absl::flat_hash_map<std::string, int32_t> ids;
  std::optional<int32_t> eos_id;
};

absl::Status Tokenizer::Impl::IndexTokens(const TokenizerSpec& spec) {
  for (const auto& [token, id] : spec.bpe.vocab) {
    DISTILL_RETURN_IF_ERROR(AddEntry(token, id, &entries));
    ids.emplace(token, id);
  }
  // Of a token that is only added: `tokenizers` counts on from the vocabulary's size, whatever the file says.
  int32_t next_id = static_cast<int32_t>(spec.bpe.vocab.size());
  for (const AddedToken& token : spec.added_tokens) {
    if (ids.count(token.content) == 0 && token.id != next_id++) {
      return absl::InvalidArgumentError(absl::StrCat("added token '", token.content, "' has id ", token.id, " where ",
                                                     next_id - 1, " follows: ids of added tokens may leave no gap"));
    }
    if (const auto [known, fresh] = ids.emplace(token.content, token.id); !fresh && known->second != token.id) {
      return absl::InvalidArgumentError(
          absl::StrCat("token '", token.content, "' has two ids, ", known->second, " and ", token.id));
    }
    DISTILL_RETURN_IF_ERROR(AddEntry(token.content, token.id, &entries));
    // `tokenizers` finds such a token under its own spelling, but spells it out in the normalized one.
    if (token.normalized && spec.nfc) SetToken(Nfc(token.content), &entries[token.id]);
    if (token.special) entries[token.id].special = true;
  }
  if (!config.eos_token.empty()) eos_id = ids.at(config.eos_token);  // merged into the added tokens
  return absl::OkStatus();
}

absl::StatusOr<Tokenizer> Tokenizer::Load(const std::string& folder) {
  const std::string path = JoinPath(folder, "tokenizer.json");
  if (!FileExists(path)) DISTILL_RETURN_IF_ERROR(RefuseOtherTokenizers(folder));
  TokenizerTexts texts;
  DISTILL_ASSIGN_OR_RETURN(texts.tokenizer_json, ReadFile(path));
  for (const auto& [name, text] : {std::pair("tokenizer_config.json", &texts.tokenizer_config),
                                   std::pair("special_tokens_map.json", &texts.special_tokens_map),
                                   std::pair("added_tokens.json", &texts.added_tokens)}) {
    const std::string file = JoinPath(folder, name);
    if (!FileExists(file)) continue;
    DISTILL_ASSIGN_OR_RETURN(*text, ReadFile(file));
  }
  DISTILL_ASSIGN_OR_RETURN(Tokenizer tokenizer, Parse(texts, path));
  if (const std::string file = JoinPath(folder, "chat_template.jinja"); FileExists(file)) {
    DISTILL_ASSIGN_OR_RETURN(tokenizer.impl_->config.chat_template, ReadFile(file));
  }
  return tokenizer;
}

absl::StatusOr<Tokenizer> Tokenizer::Parse(const TokenizerTexts& texts, const std::string& name) {
  const auto parse = [&]() -> absl::StatusOr<Tokenizer> {
    DISTILL_ASSIGN_OR_RETURN(TokenizerSpec spec, ParseTokenizerJson(texts.tokenizer_json));
    DISTILL_ASSIGN_OR_RETURN(TokenizerConfig config, MergeSpecialTokens(texts, spec.bpe.vocab, &spec.added_tokens));
    DISTILL_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(spec.steps));
    DISTILL_ASSIGN_OR_RETURN(BytePairEncoder bpe, BytePairEncoder::Create(spec.bpe));
    auto impl = std::make_shared<Impl>(spec, std::move(config), std::move(pre_tokenizer), std::move(bpe));
    impl->name = name;
    DISTILL_RETURN_IF_ERROR(impl->IndexTokens(spec));
    return Tokenizer(std::move(impl));
  };
  absl::StatusOr<Tokenizer> tokenizer = parse();
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), name);
  return tokenizer;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text) const {
  std::string repaired;
  if (!IsValidUtf8(text)) text = repaired = LossyUtf8(text);
  std::vector<int32_t> ids;
  PreTokenizer::Words words;
  for (const AddedTokenMatcher::Piece& piece : impl_->raw_tokens.Split(text)) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
      continue;
    }
    const absl::Status status = impl_->nfc ? impl_->EncodeNormalized(Nfc(piece.text), &words, &ids)
                                           : impl_->EncodeNormalized(piece.text, &words, &ids);
    if (!status.ok()) return Annotate(status, impl_->name);
  }
  return ids;
}

absl::Status Tokenizer::Impl::EncodeNormalized(absl::string_view text, PreTokenizer::Words* words,
                                               std::vector<int32_t>* out) const {
  for (const AddedTokenMatcher::Piece& piece : normalized_tokens.Split(text)) {
    if (piece.id >= 0) {
      out->push_back(piece.id);
      continue;
    }
    DISTILL_RETURN_IF_ERROR(pre_tokenizer.Split(piece.text, words));
    for (const absl::string_view word : words->views) bpe.Encode(word, out);
  }
  return absl::OkStatus();
}

std::string Tokenizer::Decode(absl::Span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) continue;
    const Entry& entry = impl_->entries[id];
    if (!(skip_special_tokens && entry.special)) bytes += entry.bytes;
  }
  return LossyUtf8(bytes);
}

int64_t Tokenizer::vocab_size() const { return static_cast<int64_t>(impl_->entries.size()); }

std::optional<int32_t> Tokenizer::TokenToId(absl::string_view token) const {
  const auto found = impl_->ids.find(token);
  return found == impl_->ids.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

absl::string_view Tokenizer::IdToToken(int32_t id) const {
  return id < 0 || id >= vocab_size() ? absl::string_view() : absl::string_view(impl_->entries[id].token);
}

bool Tokenizer::IsSpecial(int32_t id) const { return id >= 0 && id < vocab_size() && impl_->entries[id].special; }

std::optional<int32_t> Tokenizer::eos_id() const { return impl_->eos_id; }
const std::string& Tokenizer::bos_token() const { return impl_->config.bos_token; }
const std::string& Tokenizer::eos_token() const { return impl_->config.eos_token; }
const std::string& Tokenizer::pad_token() const { return impl_->config.pad_token; }
const std::string& Tokenizer::unk_token() const { return impl_->config.unk_token; }
const std::string& Tokenizer::chat_template() const { return impl_->config.chat_template; }

absl::Status RequireSameTokenizer(const Tokenizer& teacher, const Tokenizer& student) {
  const auto show = [](absl::string_view token) { return token.empty() ? "no token" : absl::StrCat("'", token, "'"); };
  const int64_t size = std::max(teacher.vocab_size(), student.vocab_size());
  for (int32_t id = 0; id < size; ++id) {
    if (teacher.IdToToken(id) == student.IdToToken(id)) continue;
    return absl::InvalidArgumentError(absl::StrCat("the tokenizers of teacher and student differ: id ", id, " is ",
                                                   show(teacher.IdToToken(id)), " in the teacher's and ",
                                                   show(student.IdToToken(id)),
                                                   " in the student's; distillation needs one tokenizer for both"));
  }
  return absl::OkStatus();
}

}  // namespace distill
