// A SentencePiece model, as its file tokenizer.model holds it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

struct SentencePieceModel {
  enum class Algorithm { kUnigram = 1, kBytePair = 2, kWords = 3, kCharacters = 4 };
  enum class Kind { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string text;  // not checked to be UTF-8
    double score = 0;
    Kind kind = Kind::kNormal;
  };

  Algorithm algorithm = Algorithm::kUnigram;
  std::vector<Piece> pieces;  // by id
  bool byte_fallback = false;
  int32_t unk_id = 0, bos_id = 1, eos_id = 2;  // below 0: none
  std::string unk_piece, bos_piece, eos_piece;
  std::string charsmap;  // the normalizer's table of characters
};

// DataLoss: bytes that are no such model, or end within it.
[[nodiscard]] absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(const std::string& bytes);

}  // namespace distill
