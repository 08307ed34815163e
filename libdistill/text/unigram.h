// SentencePiece's unigram model (Kudo 2018): of all ways to cut a word into tokens the likeliest one.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/text/token_model.h"

namespace distill {

struct UnigramOptions {
  std::vector<std::pair<std::string, double>>
      tokens;                  // with the logarithms of their probabilities; the place is the id
  int32_t unk_id = 0;          // of a run of characters without tokens
  bool byte_fallback = false;  // such a run becomes its bytes' tokens <0x00> to <0xFF>, where there are all
};

// InvalidArgument: unk_id is no token's.
[[nodiscard]] absl::StatusOr<std::shared_ptr<const TokenModel>> MakeUnigram(const UnigramOptions& options);

}  // namespace distill
