// The words of one model that a thread met last, with their ids: words repeat (Zipf). Internal to text/.
//
// Words of at most 16 bytes and 3 ids are most of a text. Two of them share a cache line, so that looking one up costs
// one line. Others have a table of their own, with two lines each. Together the tables have 2 MiB.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "libdistill/text/id_buffer.h"

namespace distill {

class WordCache {
 public:
  static constexpr size_t kMaxShortBytes = 16, kMaxShortIds = 3, kMaxBytes = 54, kMaxIds = 16;

  // A word of up to 16 bytes as two numbers, the rest of which is zero.
  struct ShortKey {
    uint64_t low = 0, high = 0;
    uint64_t bytes = 0;

    uint64_t Hash() const {
      const auto product =
          static_cast<unsigned __int128>(low ^ 0x9E3779B97F4A7C15u) * ((high ^ bytes) ^ 0xD1B54A32D192ED03u);
      return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }
  };

  // Of the bytes [begin, end) of `text`: 1 to 16.
  static ShortKey KeyOf(absl::string_view text, size_t begin, size_t end) {
    const size_t size = end - begin;
    std::array<uint64_t, 2> words{};
    if (begin + kMaxShortBytes <= text.size()) {
      std::memcpy(words.data(), text.data() + begin, kMaxShortBytes);
      const uint64_t kept = ~uint64_t{0} >> (64 - 8 * size) % 64;  // of the last number that has some
      words =
          size <= 8 ? std::array<uint64_t, 2>{words[0] & kept, 0} : std::array<uint64_t, 2>{words[0], words[1] & kept};
    } else {
      std::memcpy(words.data(), text.data() + begin, size);
    }
    return {words[0], words[1], size};
  }

  // False where it is not known.
  bool AppendShort(const ShortKey& key, IdBuffer* ids) {
    std::array<ShortWord, 2>& line = short_[key.Hash() % kShortLines].words;
    if (!line[0].Is(key)) {
      if (!line[1].Is(key)) return false;
      std::swap(line[0], line[1]);  // the one not met for longest goes
    }
    std::memcpy(ids->Room(kMaxShortIds), line[0].ids.data(), sizeof(line[0].ids));
    ids->Take(line[0].count);
    return true;
  }

  void PutShort(const ShortKey& key, const int32_t* ids, size_t count) {
    if (count > kMaxShortIds) return;
    std::array<ShortWord, 2>& line = short_[key.Hash() % kShortLines].words;
    line[1] = line[0];
    line[0] = {key.low, key.high, {}, static_cast<uint8_t>(key.bytes), static_cast<uint8_t>(count)};
    std::memcpy(line[0].ids.data(), ids, count * sizeof(int32_t));
  }

  static uint64_t HashOf(absl::string_view word) { return absl::Hash<absl::string_view>()(word); }

  // The same for words of up to kMaxBytes and kMaxIds, each at one of two places that its hash gives.
  bool AppendLong(absl::string_view word, uint64_t hash, IdBuffer* ids) const {
    for (const uint64_t place : {hash, hash ^ 1}) {
      const LongWord& known = long_[place % kLongWords];
      const bool is_same = known.hash == hash && known.bytes == word.size() &&
                           std::memcmp(known.word.data(), word.data(), word.size()) == 0;
      if (!is_same) continue;
      std::memcpy(ids->Room(kMaxIds), known.ids.data(), sizeof(known.ids));
      ids->Take(known.count);
      return true;
    }
    return false;
  }

  void PutLong(absl::string_view word, uint64_t hash, const int32_t* ids, size_t count) {
    if (count > kMaxIds) return;
    LongWord& known = long_[hash % kLongWords];
    long_[(hash ^ 1) % kLongWords] = known;
    known.hash = hash;
    known.bytes = static_cast<uint8_t>(word.size());
    known.count = static_cast<uint8_t>(count);
    std::memcpy(known.word.data(), word.data(), word.size());
    std::memcpy(known.ids.data(), ids, count * sizeof(int32_t));
  }

 private:
  static constexpr size_t kShortLines = 16384, kLongWords = 8192;

  struct ShortWord {
    uint64_t low = 0, high = 0;
    std::array<int32_t, kMaxShortIds> ids{};
    uint8_t bytes = 0, count = 0;  // no bytes: it is free

    bool Is(const ShortKey& key) const { return ((low ^ key.low) | (high ^ key.high) | (bytes ^ key.bytes)) == 0; }
  };
  struct alignas(64) Line {
    std::array<ShortWord, 2> words;
  };
  struct alignas(64) LongWord {
    uint64_t hash = 0;
    uint8_t bytes = 0, count = 0;
    std::array<char, kMaxBytes> word{};
    std::array<int32_t, kMaxIds> ids{};
  };

  std::vector<Line> short_ = std::vector<Line>(kShortLines);
  std::vector<LongWord> long_ = std::vector<LongWord>(kLongWords);
};

static_assert(std::endian::native == std::endian::little, "KeyOf keeps the lowest bytes of a number");

}  // namespace distill
