// A tokenizer out of a Hugging Face folder (tokenizer.json, and the files beside it): id for id what transformers'
// AutoTokenizer gives.
//
//   DISTILL_ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::Load("models/teacher"));
//   DISTILL_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode("Hello"));
//
// Immutable once made: copies share it, and any thread may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libdistill/text/encoding.h"

namespace distill {

// The texts of a folder's files; empty: there is no such file.
struct TokenizerTexts {
  std::string tokenizer_json;
  std::string tokenizer_config = {};    // tokenizer_config.json
  std::string special_tokens_map = {};  // special_tokens_map.json
  std::string added_tokens = {};        // added_tokens.json
  std::string config = {};              // config.json, of which the model's type counts
};

class Tokenizer {
 public:
  // Of tokenizer.json; without one of BERT's vocab.txt, or of SentencePiece's tokenizer.model. NotFound: there is none.
  // InvalidArgument: a kind that is not supported, or contents that make no sense; the message names the file and says
  // what is supported.
  [[nodiscard]] static absl::StatusOr<Tokenizer> Load(const std::string& folder);
  // Whether a folder has a file that Load would read.
  static bool IsIn(const std::string& folder);
  // `name` is what messages call it.
  [[nodiscard]] static absl::StatusOr<Tokenizer> Parse(const TokenizerTexts& texts, const std::string& name);

  // Added and special tokens in the text become their ids; no post-processor (no BOS) is applied. InvalidArgument: the
  // pattern of tokenizer.json backtracks without bound on this text; file, pattern and place are named. A pattern can
  // only be known to do so by matching, so Load cannot say it.
  [[nodiscard]] absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const;
  // A model's input: the ids of `text`, or of two, with special tokens, offsets and what else Encoding holds. Cut and
  // padded as `options` say; what tokenizer.json says of that is left out. InvalidArgument besides: options that leave
  // no room for the texts.
  [[nodiscard]] absl::StatusOr<Encoding> EncodeInput(absl::string_view text, const EncodeOptions& options = {}) const;
  [[nodiscard]] absl::StatusOr<Encoding> EncodeInput(absl::string_view first, absl::string_view second,
                                                     const EncodeOptions& options = {}) const;

  // As `tokenizers` decodes: bytes that are no UTF-8 become U+FFFD.
  std::string Decode(absl::Span<const int32_t> ids, bool skip_special_tokens = false) const;

  // Of the texts that it was made of: the same wherever Encode gives the same ids, and another where they may differ.
  const std::string& fingerprint() const;
  // One more than the largest id.
  int64_t vocab_size() const;
  // Ids and tokens as in tokenizer.json; nullopt / empty where there is none.
  std::optional<int32_t> TokenToId(absl::string_view token) const;
  absl::string_view IdToToken(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  // That of eos_token, when there is one.
  std::optional<int32_t> eos_id() const;
  // Special tokens as text (special_tokens.h says out of which file they are); empty where there is none.
  const std::string& bos_token() const;
  const std::string& eos_token() const;
  const std::string& pad_token() const;
  const std::string& unk_token() const;
  const std::string& sep_token() const;
  const std::string& cls_token() const;
  const std::string& mask_token() const;
  // The template string of tokenizer_config.json (or chat_template.jinja beside it); empty where there is none.
  const std::string& chat_template() const;

  class Sink;  // of text/ alone

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// OK when every id up to the smaller of both sizes means the same token in both and nothing is left over; otherwise
// InvalidArgument that names the first id and both tokens.
[[nodiscard]] absl::Status RequireSameTokenizer(const Tokenizer& teacher, const Tokenizer& student);

}  // namespace distill
