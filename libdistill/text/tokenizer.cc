#include "libdistill/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/store/files.h"
#include "libdistill/text/sentence_piece_model.h"
#include "libdistill/text/special_tokens.h"
#include "libdistill/text/tokenizer_fingerprint.h"
#include "libdistill/text/tokenizer_json.h"
#include "libdistill/text/vocab_txt.h"

namespace distill {
namespace {

struct Entry {
  std::string token;
  bool exists = false;
  bool special = false;
};

absl::Status AddEntry(const std::string& token, int32_t id, std::vector<Entry>* entries) {
  if (static_cast<size_t>(id) >= entries->size()) entries->resize(id + 1);
  Entry& entry = (*entries)[id];
  if (entry.exists && entry.token != token) {
    return absl::InvalidArgumentError(
        absl::StrCat("id ", id, " belongs to two tokens, '", entry.token, "' and '", token, "'"));
  }
  entry.exists = true;
  entry.token = token;
  return absl::OkStatus();
}

absl::StatusOr<std::string> Normalized(const Normalizer& normalizer, absl::string_view text) {
  NormalizedText normalized(text, 0, /*keep_origins=*/false);
  DISTILL_RETURN_IF_ERROR(normalizer.Apply(&normalized));
  return normalized.text();
}

// The first of these that a folder has says what its tokenizer is.
constexpr const char* kSources[] = {"tokenizer.json", "vocab.txt", "tokenizer.model", "spiece.model"};

absl::StatusOr<std::string> SourceOf(const std::string& folder) {
  for (const char* name : kSources) {
    if (FileExists(JoinPath(folder, name))) return std::string(name);
  }
  if (!FileExists(JoinPath(folder, "vocab.json"))) return std::string(kSources[0]);  // which reading does not find
  return absl::InvalidArgumentError(absl::StrCat(
      folder, ": no tokenizer.json, only vocab.json (the slow form of BPE); supported are a tokenizer.json, which ",
      "transformers' AutoTokenizer writes with save_pretrained, BERT's vocab.txt and SentencePiece's tokenizer.model"));
}

// "" where there is none.
absl::StatusOr<std::string> ReadIfThere(const std::string& path) {
  return FileExists(path) ? ReadFile(path) : std::string();
}

}  // namespace

// Takes the tokens of a text in order: ids of words as the model makes them, and added tokens.
class Tokenizer::Sink {
 public:
  virtual ~Sink() = default;
  virtual bool keeps_origins() const = 0;
  // Of words that are parts of `text`, or new.
  virtual void TakeWords(const TokenModel& model, const TextPart& text, absl::Span<const TextPart> words) = 0;
  virtual void TakeWords(const TokenModel& model, const WordScanner& scanner, const TextPart& text) = 0;
  virtual void TakeToken(int32_t id, const TextPart& text) = 0;
};

namespace {

class IdSink final : public Tokenizer::Sink {
 public:
  explicit IdSink(IdBuffer* ids) : ids_(ids) {}

  bool keeps_origins() const override { return false; }
  void TakeWords(const TokenModel& model, const TextPart& text, absl::Span<const TextPart> words) override {
    model.AppendIds(text.text, words, ids_);
  }
  void TakeWords(const TokenModel& model, const WordScanner& scanner, const TextPart& text) override {
    model.AppendIds(text.text, scanner, ids_);
  }
  void TakeToken(int32_t id, const TextPart&) override { ids_->Append(id); }

 private:
  IdBuffer* const ids_;
};

class EncodingSink final : public Tokenizer::Sink {
 public:
  explicit EncodingSink(int32_t text) : text_(text) {}

  bool keeps_origins() const override { return true; }

  void TakeWords(const TokenModel& model, const TextPart&, absl::Span<const TextPart> words) override {
    for (const TextPart& word : words) TakeWord(model, word);
  }

  void TakeWords(const TokenModel& model, const WordScanner& scanner, const TextPart& text) override {
    for (size_t begin = 0, end = 0; begin < text.text.size(); begin = end) {
      end = scanner.EndOfWord(text.text, begin);
      TakeWord(model, text.Part(begin, end));
    }
  }

  void TakeToken(int32_t id, const TextPart& text) override {
    Add(id, text.origins[0].begin, text.origins[text.text.size() - 1].end);
    ++word_;
  }

  Encoding encoding;

 private:
  void TakeWord(const TokenModel& model, const TextPart& word) {
    tokens_.clear();
    model.AppendTokens(word.text, &tokens_);
    for (const WordToken& token : tokens_)
      Add(token.id, word.origins[token.begin].begin, word.origins[token.end - 1].end);
    ++word_;
  }

  void Add(int32_t id, int64_t begin, int64_t end) {
    encoding.ids.push_back(id);
    encoding.type_ids.push_back(text_);
    encoding.offsets.emplace_back(begin, end);
    encoding.words.push_back(word_);
    encoding.texts.push_back(text_);
    encoding.is_special.push_back(0);
    encoding.attention_mask.push_back(1);
  }

  const int32_t text_;
  int32_t word_ = 0;
  std::vector<WordToken> tokens_;
};

}  // namespace

struct Tokenizer::Impl {
  [[nodiscard]] absl::Status Init(TokenizerParts all_parts, TokenizerConfig tokenizer_config);
  [[nodiscard]] absl::Status IndexTokens();
  [[nodiscard]] absl::Status Read(absl::string_view text, Sink* sink) const;
  [[nodiscard]] absl::Status ReadNormalized(const TextPart& text, PreTokenizer::Words* words, Sink* sink) const;
  [[nodiscard]] absl::StatusOr<Encoding> Encode(absl::Span<const absl::string_view> texts,
                                                const EncodeOptions& options) const;

  std::string name;  // of tokenizer.json, in messages
  std::string fingerprint;
  TokenizerParts parts;
  TokenizerConfig config;
  std::optional<AddedTokenMatcher> raw_tokens, normalized_tokens;
  std::vector<Entry> entries;  // by id
  absl::flat_hash_map<std::string, int32_t> ids;
  std::optional<int32_t> eos_id;
};

absl::Status Tokenizer::Impl::Init(TokenizerParts all_parts, TokenizerConfig tokenizer_config) {
  parts = std::move(all_parts);
  config = std::move(tokenizer_config);
  std::vector<AddedToken> raw, normalized;
  for (AddedToken token : parts.added_tokens) {
    if (token.special && config.split_special_tokens) continue;
    if (token.normalized) {
      DISTILL_ASSIGN_OR_RETURN(token.content, Normalized(parts.normalizer, token.content));
    }
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  raw_tokens.emplace(std::move(raw));
  normalized_tokens.emplace(std::move(normalized));
  return IndexTokens();
}

absl::Status Tokenizer::Impl::IndexTokens() {
  for (const auto& [token, id] : parts.vocab) {
    DISTILL_RETURN_IF_ERROR(AddEntry(token, id, &entries));
    ids.emplace(token, id);
  }
  // Of a token that is only added: `tokenizers` counts on from the vocabulary's size, whatever the file says.
  int32_t next_id = static_cast<int32_t>(parts.vocab.size());
  for (const AddedToken& token : parts.added_tokens) {
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
    if (token.normalized) {
      DISTILL_ASSIGN_OR_RETURN(entries[token.id].token, Normalized(parts.normalizer, token.content));
    }
    if (token.special) entries[token.id].special = true;
  }
  if (!config.eos_token.empty()) eos_id = ids.at(config.eos_token);  // merged into the added tokens
  return absl::OkStatus();
}

bool Tokenizer::IsIn(const std::string& folder) {
  return std::any_of(std::begin(kSources), std::end(kSources),
                     [&](const char* name) { return FileExists(JoinPath(folder, name)); });
}

absl::StatusOr<Tokenizer> Tokenizer::Load(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::string source, SourceOf(folder));
  const std::string path = JoinPath(folder, source);
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  TokenizerTexts texts;
  for (const auto& [name, text] :
       {std::pair("tokenizer_config.json", &texts.tokenizer_config),
        std::pair("special_tokens_map.json", &texts.special_tokens_map),
        std::pair("added_tokens.json", &texts.added_tokens), std::pair("config.json", &texts.config)}) {
    DISTILL_ASSIGN_OR_RETURN(*text, ReadIfThere(JoinPath(folder, name)));
  }
  if (source == "vocab.txt") {
    DISTILL_RETURN_IF_ERROR(Annotate(CompleteFromVocab(text, &texts), path));
  } else if (absl::EndsWith(source, ".model")) {
    DISTILL_RETURN_IF_ERROR(Annotate(CompleteFromSentencePiece(text, &texts), path));
  } else {
    texts.tokenizer_json = text;
  }
  DISTILL_ASSIGN_OR_RETURN(Tokenizer tokenizer, Parse(texts, path));
  if (const std::string file = JoinPath(folder, "chat_template.jinja"); FileExists(file)) {
    DISTILL_ASSIGN_OR_RETURN(tokenizer.impl_->config.chat_template, ReadFile(file));
  }
  return tokenizer;
}

absl::StatusOr<Tokenizer> Tokenizer::Parse(const TokenizerTexts& texts, const std::string& name) {
  const auto parse = [&]() -> absl::StatusOr<Tokenizer> {
    DISTILL_ASSIGN_OR_RETURN(TokenizerParts parts, ParseTokenizerJson(texts));
    DISTILL_ASSIGN_OR_RETURN(TokenizerConfig config, MergeSpecialTokens({.tokenizer_json = "",
                                                                         .tokenizer_config = parts.tokenizer_config,
                                                                         .special_tokens_map = texts.special_tokens_map,
                                                                         .added_tokens = texts.added_tokens},
                                                                        parts.vocab, &parts.added_tokens));
    auto impl = std::make_shared<Impl>();
    impl->name = name;
    impl->fingerprint = FingerprintOf(texts);
    DISTILL_RETURN_IF_ERROR(impl->Init(std::move(parts), std::move(config)));
    return Tokenizer(std::move(impl));
  };
  absl::StatusOr<Tokenizer> tokenizer = parse();
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), name);
  return tokenizer;
}

absl::Status Tokenizer::Impl::Read(absl::string_view text, Sink* sink) const {
  thread_local PreTokenizer::Words words;  // its memory serves the next text
  const Normalizer& normalizer = parts.normalizer;
  const bool keep_origins = sink->keeps_origins() || (!normalizer.empty() && parts.pre_tokenizer.asks_for_start());
  const NormalizedText original(keep_origins ? text : absl::string_view(), 0, keep_origins);
  const TextPart whole = keep_origins ? original.whole() : TextPart{text, nullptr, true};
  for (const AddedTokenMatcher::Piece& piece : raw_tokens->Split(text)) {
    const TextPart part = whole.Part(piece.begin, piece.end);
    if (piece.id >= 0) {
      sink->TakeToken(piece.id, part);
    } else if (normalizer.empty()) {
      DISTILL_RETURN_IF_ERROR(ReadNormalized(part, &words, sink));
    } else {
      NormalizedText normalized(part);
      DISTILL_RETURN_IF_ERROR(normalizer.Apply(&normalized));
      DISTILL_RETURN_IF_ERROR(ReadNormalized(normalized.whole(), &words, sink));
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::Impl::ReadNormalized(const TextPart& text, PreTokenizer::Words* words, Sink* sink) const {
  for (const AddedTokenMatcher::Piece& piece : normalized_tokens->Split(text.text)) {
    const TextPart part = text.Part(piece.begin, piece.end);
    if (piece.id >= 0) {
      sink->TakeToken(piece.id, part);
      continue;
    }
    if (const WordScanner* scanner = parts.pre_tokenizer.scanner(); scanner != nullptr) {
      sink->TakeWords(*parts.model, *scanner, part);
      continue;
    }
    DISTILL_RETURN_IF_ERROR(parts.pre_tokenizer.Split(part, words));
    const bool is_one_new = words->storage.size() == 1;  // of which all words are parts
    sink->TakeWords(*parts.model, is_one_new ? words->storage.front().whole() : part, words->parts);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(absl::string_view text) const {
  thread_local IdBuffer ids;  // its memory serves the next text
  ids.Clear();
  IdSink sink(&ids);
  const std::string repaired = IsValidUtf8(text) ? "" : LossyUtf8(text);
  const absl::Status status = impl_->Read(repaired.empty() ? text : repaired, &sink);
  if (!status.ok()) return Annotate(status, impl_->name);
  return ids.Copy();
}

absl::StatusOr<Encoding> Tokenizer::Impl::Encode(absl::Span<const absl::string_view> texts,
                                                 const EncodeOptions& options) const {
  std::vector<PostProcessor::Input> inputs;
  for (const absl::string_view text : texts) {
    if (!IsValidUtf8(text)) return absl::InvalidArgumentError("a text is not UTF-8: its bytes have no offsets");
    EncodingSink sink(static_cast<int32_t>(inputs.size()));
    DISTILL_RETURN_IF_ERROR(Read(text, &sink));
    inputs.push_back({text, std::move(sink.encoding)});
  }
  if (options.max_length > 0) {
    const int64_t added = options.add_special_tokens ? parts.post_processor.CountAdded(texts.size() > 1) : 0;
    if (added > options.max_length) {
      return absl::InvalidArgumentError(
          absl::StrCat("max_length is ", options.max_length, ", and special tokens alone are ", added));
    }
    Encoding* const second = texts.size() > 1 ? &inputs[1].encoding : nullptr;
    DISTILL_RETURN_IF_ERROR(TruncateBoth(options.max_length - added, options, &inputs[0].encoding, second));
  }
  const auto token = [this](int32_t id) { return absl::string_view(entries[id].token); };
  Encoding joined = parts.post_processor.Join(std::move(inputs), options.add_special_tokens, token);
  Pad(options, &joined);
  return joined;
}

absl::StatusOr<Encoding> Tokenizer::EncodeInput(absl::string_view text, const EncodeOptions& options) const {
  absl::StatusOr<Encoding> encoding = impl_->Encode({text}, options);
  if (!encoding.ok()) return Annotate(encoding.status(), impl_->name);
  return encoding;
}

absl::StatusOr<Encoding> Tokenizer::EncodeInput(absl::string_view first, absl::string_view second,
                                                const EncodeOptions& options) const {
  absl::StatusOr<Encoding> encoding = impl_->Encode({first, second}, options);
  if (!encoding.ok()) return Annotate(encoding.status(), impl_->name);
  return encoding;
}

std::string Tokenizer::Decode(absl::Span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) continue;
    const Entry& entry = impl_->entries[id];
    if (entry.exists && !(skip_special_tokens && entry.special)) tokens.push_back(entry.token);
  }
  return impl_->parts.decoder.Join(std::move(tokens));
}

const std::string& Tokenizer::fingerprint() const { return impl_->fingerprint; }

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
const std::string& Tokenizer::sep_token() const { return impl_->config.sep_token; }
const std::string& Tokenizer::cls_token() const { return impl_->config.cls_token; }
const std::string& Tokenizer::mask_token() const { return impl_->config.mask_token; }
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
