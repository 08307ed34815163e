#include "libdistill/text/token_model.h"

#include "absl/hash/hash.h"

namespace distill {

void TokenModel::AppendIds(absl::string_view word, std::vector<int32_t>* ids) const {
  const auto append = [&] {
    std::vector<WordToken> tokens;
    AppendTokens(word, &tokens);
    for (const WordToken& token : tokens) ids->push_back(token.id);
  };
  if (word.size() > kWordBytes) return append();
  Shard& shard = shards_[absl::Hash<absl::string_view>()(word) % kShards];
  {
    absl::MutexLock lock(&shard.mutex);
    if (const auto found = shard.words.find(word); found != shard.words.end()) {
      ids->insert(ids->end(), found->second.begin(), found->second.end());
      return;
    }
  }
  const size_t begin = ids->size();
  append();
  absl::MutexLock lock(&shard.mutex);
  if (shard.words.size() < kWordsPerShard) {
    shard.words.emplace(std::string(word), std::vector<int32_t>(ids->begin() + begin, ids->end()));
  }
}

}  // namespace distill
