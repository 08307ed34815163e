// Byte-pair encoding (Sennrich et al. 2016) of one pre-tokenized word, over bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

struct BpeSpec {
  absl::flat_hash_map<std::string, int32_t> vocab;          // tokens in the byte alphabet of byte_level.h
  std::vector<std::pair<std::string, std::string>> merges;  // the first one is applied first
  std::string unk_token;                                    // for bytes without a token; empty: such bytes are left out
  bool fuse_unk = false;                                    // one unk_token for a run of such bytes
  bool ignore_merges = false;                               // a word that is a token is taken whole (Llama 3)
};

class BytePairEncoder {
 public:
  // InvalidArgument: a merge, or unk_token, that names a token outside the vocabulary.
  [[nodiscard]] static absl::StatusOr<BytePairEncoder> Create(const BpeSpec& spec);

  // Appends the ids of `word` (plain bytes). Any thread may call it.
  void Encode(absl::string_view word, std::vector<int32_t>* ids) const;

 private:
  struct Impl;
  explicit BytePairEncoder(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace distill
