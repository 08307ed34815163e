#include "libdistill/proto/sentencepiece_messages.h"

#include "absl/strings/str_cat.h"
#include "sentencepiece.pb.h"

namespace distill {

absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(const std::string& bytes) {
  proto::SentencePieceModel message;
  if (!message.ParseFromString(bytes) || message.pieces().empty()) {
    return absl::DataLossError("no SentencePiece model, or one that is cut off; copy the file again");
  }
  const proto::SentencePieceTrainer& trainer = message.trainer_spec();
  if (trainer.model_type() < 1 || trainer.model_type() > 4) {
    return absl::DataLossError(absl::StrCat("a SentencePiece model of the unknown type ", trainer.model_type()));
  }
  SentencePieceModel model;
  model.algorithm = static_cast<SentencePieceModel::Algorithm>(trainer.model_type());
  model.byte_fallback = trainer.byte_fallback();
  model.unk_id = trainer.unk_id();
  model.bos_id = trainer.bos_id();
  model.eos_id = trainer.eos_id();
  model.unk_piece = trainer.unk_piece();
  model.bos_piece = trainer.bos_piece();
  model.eos_piece = trainer.eos_piece();
  model.charsmap = message.normalizer_spec().precompiled_charsmap();
  for (const proto::SentencePiece& piece : message.pieces()) {
    if (piece.type() < 1 || piece.type() > 6) {
      return absl::DataLossError(absl::StrCat("piece ", model.pieces.size(), " is of the unknown type ", piece.type()));
    }
    model.pieces.push_back({piece.piece(), piece.score(), static_cast<SentencePieceModel::Kind>(piece.type())});
  }
  return model;
}

}  // namespace distill
