#include "libdistill/text/normalized_text.h"

#include <algorithm>

#include "libdistill/core/utf8.h"

namespace distill {

NormalizedText::NormalizedText(absl::string_view text, size_t place, bool keep_origins)
    : text_(text), keeps_origins_(keep_origins), at_start_(place == 0) {
  if (!keep_origins) return;
  origins_.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    NextCodePoint(text, &i);
    const Origin origin{static_cast<uint32_t>(place + begin), static_cast<uint32_t>(place + i)};
    origins_.insert(origins_.end(), i - begin, origin);
  }
}

NormalizedText::NormalizedText(const TextPart& part)
    : text_(part.text), keeps_origins_(part.origins != nullptr), at_start_(part.at_start) {
  if (keeps_origins_) origins_.assign(part.origins, part.origins + part.text.size());
}

void NormalizedText::Rewrite(absl::FunctionRef<void(char32_t, size_t, size_t)> write) {
  RewriteWhole([&] {
    for (size_t i = 0; i < text_.size();) {
      const size_t begin = i;
      const char32_t character = NextCodePoint(text_, &i);
      write(character, begin, i);
    }
  });
}

void NormalizedText::RewriteWhole(absl::FunctionRef<void()> write) {
  next_text_.clear();
  next_text_.reserve(text_.size());
  next_origins_.clear();
  write();
  text_.swap(next_text_);
  origins_.swap(next_origins_);
}

void NormalizedText::Apply(const std::vector<CharacterChange>& changes) {
  RewriteWhole([&] {
    size_t next = 0;  // the first byte that nothing stands for yet
    for (const CharacterChange& change : changes) {
      const bool is_new = change.change > 0;
      Append(change.character, is_new && next > 0 ? next - 1 : std::min(next, text_.size() - 1));
      for (int passed = is_new ? 1 : change.change; passed <= 0 && next < text_.size(); ++passed) {
        NextCodePoint(text_, &next);
      }
    }
  });
}

void NormalizedText::Keep(size_t begin, size_t end) {
  next_text_.append(text_, begin, end - begin);
  if (keeps_origins_) next_origins_.insert(next_origins_.end(), origins_.begin() + begin, origins_.begin() + end);
}

void NormalizedText::KeepReplaced(size_t begin, size_t end, const std::array<int8_t, 128>& replaced) {
  size_t size = next_text_.size();
  next_text_.resize(size + (end - begin));
  for (size_t i = begin; i < end; ++i) {
    const int8_t character = replaced[static_cast<unsigned char>(text_[i])];
    next_text_[size] = static_cast<char>(character);
    size += character >= 0 ? 1 : 0;
    if (keeps_origins_ && character >= 0) next_origins_.push_back(origins_[i]);
  }
  next_text_.resize(size);
}

void NormalizedText::Append(absl::string_view added, size_t at) {
  next_text_.append(added.data(), added.size());
  if (keeps_origins_) next_origins_.insert(next_origins_.end(), added.size(), origins_[at]);
}

void NormalizedText::Append(char32_t added, size_t at) {
  const size_t before = next_text_.size();
  AppendUtf8(added, &next_text_);
  if (keeps_origins_) next_origins_.insert(next_origins_.end(), next_text_.size() - before, origins_[at]);
}

void NormalizedText::Append(const TextPart& added) {
  next_text_.append(added.text.data(), added.text.size());
  if (keeps_origins_) next_origins_.insert(next_origins_.end(), added.origins, added.origins + added.text.size());
}

}  // namespace distill
