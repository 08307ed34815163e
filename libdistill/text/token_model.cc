#include "libdistill/text/token_model.h"

#include <array>
#include <atomic>

#include "libdistill/text/word_cache.h"

namespace distill {
namespace {

// This thread's cache of a model. Few threads use more than a teacher's and a student's.
WordCache& CacheOf(uint64_t model) {
  constexpr size_t kModels = 2;
  struct Kept {
    uint64_t model = 0;
    std::unique_ptr<WordCache> cache;
  };
  thread_local std::array<Kept, kModels> kept;  // the last one used first
  if (kept[0].model == model) return *kept[0].cache;
  std::swap(kept[0], kept[1]);
  if (kept[0].model != model) kept[0] = {model, std::make_unique<WordCache>()};
  return *kept[0].cache;
}

}  // namespace

class TokenModel::Words {
 public:
  Words(const TokenModel& model, absl::string_view text, IdBuffer* ids)
      : model_(model), text_(text), ids_(ids), cache_(CacheOf(model.number_)) {}

  void AppendParts(size_t begin, size_t end) const {
    if (end - begin <= WordCache::kMaxShortBytes) return Append(begin, end);
    const absl::string_view word = text_.substr(0, end);
    for (size_t part_end = 0; begin < end; begin = part_end) {
      part_end = model_.EndOfPart(word, begin);
      Append(begin, part_end);
    }
  }

 private:
  void Append(size_t begin, size_t end) const {
    const size_t size = end - begin;
    if (size > WordCache::kMaxShortBytes) return AppendLong(text_.substr(begin, size));
    if (size == 0) return;
    const WordCache::ShortKey key = WordCache::KeyOf(text_, begin, end);
    if (cache_.AppendShort(key, ids_)) return;
    const absl::string_view word = text_.substr(begin, size);
    const uint64_t hash = WordCache::HashOf(word);
    if (cache_.AppendLong(word, hash, ids_)) return;
    const size_t before = ids_->size();
    AppendNew(word);
    const size_t count = ids_->size() - before;
    if (count <= WordCache::kMaxShortIds) return cache_.PutShort(key, ids_->data() + before, count);
    cache_.PutLong(word, hash, ids_->data() + before, count);
  }

  void AppendLong(absl::string_view word) const {
    if (word.size() > WordCache::kMaxBytes) return AppendNew(word);
    const uint64_t hash = WordCache::HashOf(word);
    if (cache_.AppendLong(word, hash, ids_)) return;
    const size_t before = ids_->size();
    AppendNew(word);
    cache_.PutLong(word, hash, ids_->data() + before, ids_->size() - before);
  }

  void AppendNew(absl::string_view word) const {
    thread_local std::vector<WordToken> tokens;
    tokens.clear();
    model_.AppendTokens(word, &tokens);
    int32_t* id = ids_->Room(tokens.size());
    for (const WordToken& token : tokens) *id++ = token.id;
    ids_->Take(tokens.size());
  }

  const TokenModel& model_;
  const absl::string_view text_;
  IdBuffer* const ids_;
  WordCache& cache_;
};

uint64_t TokenModel::NextNumber() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

void TokenModel::AppendIds(absl::string_view text, absl::Span<const TextPart> words, IdBuffer* ids) const {
  const Words in_text(*this, text, ids);
  for (const TextPart& word : words) {
    // Elsewhere the bytes behind a word are not to be read.
    const auto begin = reinterpret_cast<uintptr_t>(word.text.data()) - reinterpret_cast<uintptr_t>(text.data());
    const bool is_part = begin <= text.size() && word.text.size() <= text.size() - begin;
    is_part ? in_text.AppendParts(begin, begin + word.text.size())
            : Words(*this, word.text, ids).AppendParts(0, word.text.size());
  }
}

void TokenModel::AppendIds(absl::string_view text, const WordScanner& scanner, IdBuffer* ids) const {
  const Words words(*this, text, ids);
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = scanner.EndOfWord(text, begin);
    words.AppendParts(begin, end);
  }
}

}  // namespace distill
