// Damaged messages for the fuzzers of parsers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace distill::testing {

inline std::string RandomBytes(std::mt19937_64& random, size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// One change of those that find mistakes in parsers: bits, bytes, lengths, and parts cut, doubled or taken from
// elsewhere.
inline void Mutate(std::mt19937_64& random, const std::vector<std::string>& corpus, std::string& bytes) {
  const size_t at = bytes.empty() ? 0 : random() % bytes.size();
  const size_t length = 1 + random() % 16;
  switch (bytes.empty() ? 4 : random() % 7) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      return;
    case 1:
      bytes[at] = static_cast<char>(random());
      return;
    case 2: {  // a length or a number at one of its borders
      constexpr uint32_t kBorders[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 1001};
      uint32_t value = kBorders[random() % std::size(kBorders)];
      if (random() % 2 == 0) value = __builtin_bswap32(value);
      bytes.replace(at, sizeof(value), reinterpret_cast<const char*>(&value), sizeof(value));
      return;
    }
    case 3:
      bytes.erase(at, length);
      return;
    case 4:
      bytes.insert(at, RandomBytes(random, length));
      return;
    case 5:
      bytes.insert(at, bytes.substr(random() % bytes.size(), length));
      return;
    default: {
      const std::string& other = corpus[random() % corpus.size()];
      bytes = bytes.substr(0, at) + other.substr(std::min(other.size(), at));
    }
  }
}

}  // namespace distill::testing
