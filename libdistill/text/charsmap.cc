#include "libdistill/text/charsmap.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/unicode.h"

namespace distill {
namespace {

// A unit of darts-clone's double array.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) == 1; }
uint32_t LabelOf(uint32_t unit) { return unit & (uint32_t{1} << 31 | 0xFF); }
uint32_t OffsetOf(uint32_t unit) { return unit >> 10 << ((unit & uint32_t{1} << 9) >> 6); }
uint32_t ValueOf(uint32_t unit) { return unit & ((uint32_t{1} << 31) - 1); }

// `from` characters became `to`; of less of them the last one takes the place of those that are gone.
void AddChanges(absl::string_view from, absl::string_view to, std::vector<CharacterChange>* changes) {
  const auto before = static_cast<int>(CountCodePoints(from)), after = static_cast<int>(CountCodePoints(to));
  int number = 0;
  for (size_t i = 0; i < to.size(); ++number) {
    changes->push_back({NextCodePoint(to, &i), number < before ? 0 : 1});
  }
  if (after < before && !changes->empty()) changes->back().change += after - before;
}

}  // namespace

absl::StatusOr<Charsmap> Charsmap::Parse(absl::string_view bytes) {
  constexpr size_t kUnit = sizeof(uint32_t);
  const auto number_at = [&](size_t at) {
    uint32_t number = 0;
    for (size_t i = kUnit; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
    return number;
  };
  const size_t size = bytes.size() < kUnit ? 0 : number_at(0);
  if (size == 0 || size % kUnit != 0 || size > bytes.size() - kUnit) {
    return absl::DataLossError(
        absl::StrCat("precompiled_charsmap has ", bytes.size(), " bytes, which hold no trie of ", size, " bytes"));
  }
  Charsmap map;
  for (size_t at = kUnit; at < kUnit + size; at += kUnit) map.trie_.push_back(number_at(at));
  map.texts_ = std::string(bytes.substr(kUnit + size));
  if (!IsValidUtf8(map.texts_)) return absl::DataLossError("precompiled_charsmap holds texts that are not UTF-8");
  for (size_t c = 0; c < map.ascii_changes_.size(); ++c) {
    const char character = static_cast<char>(c);
    map.ascii_changes_[c] = map.Find(absl::string_view(&character, 1)).has_value();
  }
  return map;
}

std::optional<absl::string_view> Charsmap::Find(absl::string_view text) const {
  size_t node = OffsetOf(trie_[0]);
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    node ^= byte;
    if (byte == 0 || node >= trie_.size() || LabelOf(trie_[node]) != byte) return std::nullopt;
    const uint32_t unit = trie_[node];
    node ^= OffsetOf(unit);
    if (!HasLeaf(unit)) continue;
    const size_t begin = node < trie_.size() ? ValueOf(trie_[node]) : texts_.size();
    if (begin >= texts_.size()) return std::nullopt;
    return absl::string_view(texts_.c_str() + begin);  // up to its zero byte
  }
  return std::nullopt;
}

void Charsmap::Apply(NormalizedText* text) const {
  constexpr size_t kMaxClusterBytes = 5;
  const absl::string_view before = text->text();
  std::vector<CharacterChange> changes;
  changes.reserve(before.size());
  bool is_changed = false;
  const auto replace = [&](absl::string_view part) {
    const std::optional<absl::string_view> found = Find(part);
    if (found) AddChanges(part, *found, &changes);
    is_changed = is_changed || found;
    return found.has_value();
  };
  const auto is_ascii = [&](size_t at) { return at >= before.size() || static_cast<uint8_t>(before[at]) < 0x80; };
  for (size_t begin = 0; begin < before.size();) {
    // An ASCII character before another one is a cluster, but for line ends of two.
    const bool is_single = is_ascii(begin) && is_ascii(begin + 1) && before[begin] != '\r';
    if (is_single && !ascii_changes_[static_cast<uint8_t>(before[begin])]) {
      changes.push_back({static_cast<char32_t>(before[begin++]), 0});
      continue;
    }
    const absl::string_view cluster = before.substr(begin, GraphemeEnd(before, begin) - begin);
    begin += cluster.size();
    if (cluster.size() <= kMaxClusterBytes && replace(cluster)) continue;
    for (size_t i = 0; i < cluster.size();) {
      const size_t at = i;
      const char32_t character = NextCodePoint(cluster, &i);
      if (!replace(cluster.substr(at, i - at))) changes.push_back({character, 0});
    }
  }
  if (is_changed) text->Apply(changes);
}

}  // namespace distill
