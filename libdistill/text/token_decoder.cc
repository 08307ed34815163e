// Each kind is one function that makes a step of its options (tokenizers/src/decoders).
#include "libdistill/text/token_decoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"
#include "libdistill/text/json_fields.h"

namespace distill {
namespace {

using Step = TokenDecoder::Step;
using Tokens = std::vector<std::string>;

Step EachToken(std::function<void(size_t index, std::string* token)> change) {
  return [change = std::move(change)](Tokens* tokens) {
    for (size_t i = 0; i < tokens->size(); ++i) change(i, &(*tokens)[i]);
  };
}

void JoinBytes(Tokens* tokens) {
  std::string all, bytes;
  for (const std::string& token : *tokens) all += DecodeByteLevel(token, &bytes) ? bytes : token;
  *tokens = {LossyUtf8(all)};
}

void Fuse(Tokens* tokens) { *tokens = {absl::StrJoin(*tokens, "")}; }

// <0x41> is a byte.
bool IsByte(const std::string& token, std::string* byte) {
  if (token.size() != 6 || !absl::StartsWith(token, "<0x") || token[5] != '>') return false;
  uint32_t value = 0;
  const absl::string_view digits = absl::string_view(token).substr(3, 2);
  // Rust's parser takes "+4", too.
  const absl::string_view plain = digits[0] == '+' ? digits.substr(1) : digits;
  if (!std::all_of(plain.begin(), plain.end(), [](unsigned char c) { return absl::ascii_isxdigit(c); })) return false;
  if (!absl::SimpleHexAtoi(plain, &value)) return false;
  *byte = std::string(1, static_cast<char>(value));
  return true;
}

// Runs of byte tokens become their text, or one U+FFFD for each where they are none.
void JoinFallbackBytes(Tokens* tokens) {
  Tokens joined;
  std::string run, byte;
  const auto end_run = [&] {
    if (IsValidUtf8(run)) {
      if (!run.empty()) joined.push_back(run);
    } else {
      joined.insert(joined.end(), run.size(), "\xEF\xBF\xBD");
    }
    run.clear();
  };
  for (std::string& token : *tokens) {
    if (IsByte(token, &byte)) {
      run += byte;
      continue;
    }
    end_run();
    joined.push_back(std::move(token));
  }
  end_run();
  *tokens = std::move(joined);
}

// English as it was before BERT's tokenizer spaced it out.
std::string CleanUp(std::string text) {
  // One after another: what one has left is the next one's.
  for (const auto& [from, to] : {std::pair(" .", "."),
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" do not", " don't"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}}) {
    absl::StrReplaceAll({{from, to}}, &text);
  }
  return text;
}

absl::StatusOr<Step> WordPiece(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::string prefix, GetString(options, "prefix"));
  DISTILL_ASSIGN_OR_RETURN(const bool cleanup, GetBool(options, "cleanup", true));
  return EachToken([prefix, cleanup](size_t index, std::string* token) {
    if (index > 0) {
      absl::string_view rest = *token;
      *token = absl::ConsumePrefix(&rest, prefix) ? std::string(rest) : absl::StrCat(" ", *token);
    }
    if (cleanup) *token = CleanUp(std::move(*token));
  });
}

absl::StatusOr<Step> Metaspace(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::string replacement, GetCharacter(options, "replacement"));
  DISTILL_ASSIGN_OR_RETURN(const bool add_prefix_space, GetBool(options, "add_prefix_space", true));
  const bool drops_first = add_prefix_space && Get(options, "prepend_scheme") != "never";
  return EachToken([=](size_t index, std::string* token) {
    absl::StrReplaceAll({{replacement, index == 0 && drops_first ? "" : " "}}, token);
  });
}

absl::StatusOr<Step> BpeDecoder(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::string suffix, GetString(options, "suffix"));
  return Step([suffix](Tokens* tokens) {
    for (size_t i = 0; i < tokens->size() && !suffix.empty(); ++i) {
      absl::StrReplaceAll({{suffix, i + 1 == tokens->size() ? "" : " "}}, &(*tokens)[i]);
    }
  });
}

absl::StatusOr<Step> Replace(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const Regex pattern, PatternOf(options));
  DISTILL_ASSIGN_OR_RETURN(const std::string content, GetString(options, "content"));
  return EachToken([pattern, content](size_t, std::string* token) {
    std::string replaced;
    size_t done = 0;
    const absl::Status status = pattern.ForEachMatch(*token, [&](size_t begin, size_t end) {
      absl::StrAppend(&replaced, token->substr(done, begin - done), content);
      done = end;
    });
    // A token is short: a pattern that fails on it leaves it as it is.
    if (status.ok()) *token = absl::StrCat(replaced, token->substr(done));
  });
}

absl::StatusOr<Step> Strip(const Json& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::string content, GetCharacter(options, "content"));
  DISTILL_ASSIGN_OR_RETURN(const int32_t start, GetId(Get(options, "start"), "start"));
  DISTILL_ASSIGN_OR_RETURN(const int32_t stop, GetId(Get(options, "stop"), "stop"));
  return EachToken([=](size_t, std::string* token) {
    absl::string_view rest = *token;
    for (int32_t i = 0; i < start && absl::ConsumePrefix(&rest, content);) ++i;
    for (int32_t i = 0; i < stop && absl::ConsumeSuffix(&rest, content);) ++i;
    *token = std::string(rest);
  });
}

absl::StatusOr<Step> StepOf(const Json& part) {
  static const auto* const kWithOptions =
      new absl::flat_hash_map<std::string, absl::StatusOr<Step> (*)(const Json&)>{{"BPEDecoder", BpeDecoder},
                                                                                  {"Metaspace", Metaspace},
                                                                                  {"Replace", Replace},
                                                                                  {"Strip", Strip},
                                                                                  {"WordPiece", WordPiece}};
  const std::string type = TypeOf(part);
  if (const auto kind = kWithOptions->find(type); kind != kWithOptions->end()) return kind->second(part);
  if (type == "ByteLevel") return Step(JoinBytes);
  if (type == "ByteFallback") return Step(JoinFallbackBytes);
  if (type == "Fuse") return Step(Fuse);
  return Unsupported("decoder", type,
                     "BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip, WordPiece, and a Sequence "
                     "of them");
}

}  // namespace

absl::StatusOr<TokenDecoder> TokenDecoder::Parse(const Json& json) {
  TokenDecoder decoder;
  DISTILL_RETURN_IF_ERROR(ForEachOf(json, "decoders", [&](const Json& part) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(Step step, StepOf(part));
    decoder.steps_.push_back(std::move(step));
    return absl::OkStatus();
  }));
  if (json.is_null()) {
    decoder.steps_.push_back([](Tokens* tokens) { *tokens = {absl::StrJoin(*tokens, " ")}; });
  }
  return decoder;
}

std::string TokenDecoder::Join(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) step(&tokens);
  return absl::StrJoin(tokens, "");
}

}  // namespace distill
