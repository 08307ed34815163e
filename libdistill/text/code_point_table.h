// A byte for every code point, in pages of 256, of which most are alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace distill {

class CodePointTable {
 public:
  static constexpr char32_t kEnd = 0x110000;

  // The values of `value_of(c)` below `end`; above, `rest`.
  template <class ValueOf>
  explicit CodePointTable(const ValueOf& value_of, char32_t end = kEnd, uint8_t rest = 0) {
    for (char32_t page = 0; page < pages_.size(); ++page) {
      std::array<uint8_t, 256> values;
      for (char32_t i = 0; i < values.size(); ++i) {
        const char32_t c = page << 8 | i;
        values[i] = c < end ? value_of(c) : rest;
      }
      size_t number = 0;
      while (number < different_.size() && different_[number] != values) ++number;
      if (number == different_.size()) different_.push_back(values);
      pages_[page] = static_cast<uint16_t>(number);
    }
  }

  uint8_t Of(char32_t c) const { return different_[pages_[c >> 8]][c & 0xFF]; }

 private:
  std::array<uint16_t, kEnd / 256> pages_;
  std::vector<std::array<uint8_t, 256>> different_;
};

}  // namespace distill
