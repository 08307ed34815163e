// The parts of the tokenizer.json that stands for a SentencePiece model. Internal to text/.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/proto/sentencepiece_messages.h"

namespace distill {

// Those of a class of transformers, or of the model alone (TokenizersBackend).
enum class SentencePieceRules { kModel, kLlama, kGemma, kT5 };

struct SentencePieceOptions {
  SentencePieceRules rules = SentencePieceRules::kModel;
  bool prefix = true;                    // a space is put before texts (Llama's)
  bool legacy = false;                   // also before what follows special tokens
  std::string before = {}, behind = {};  // tokens around each text; empty: none
};

// InvalidArgument: a token around texts is no piece.
[[nodiscard]] absl::StatusOr<nlohmann::json> TokenizerJsonOf(const SentencePieceModel& model,
                                                             const SentencePieceOptions& options);

}  // namespace distill
