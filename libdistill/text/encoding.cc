#include "libdistill/text/encoding.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// Calls visit(list of from, list of to) for all lists that are as long as the ids.
template <typename From, typename Visit>
void ForEachList(From& from, Encoding* to, const Visit& visit) {
  visit(from.ids, to->ids);
  visit(from.type_ids, to->type_ids);
  visit(from.offsets, to->offsets);
  visit(from.words, to->words);
  visit(from.texts, to->texts);
  visit(from.is_special, to->is_special);
  visit(from.attention_mask, to->attention_mask);
}

Encoding Part(const Encoding& encoding, int64_t begin, int64_t end) {
  Encoding part;
  ForEachList(encoding, &part,
              [&](const auto& from, auto& to) { to.assign(from.begin() + begin, from.begin() + end); });
  return part;
}

// Where the parts of a text of `size` tokens lie, the one that stays first.
std::vector<std::pair<int64_t, int64_t>> PartsOf(int64_t size, int64_t max_length, int64_t stride, bool from_end) {
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (int64_t begin = 0;; begin += max_length - stride) {
    const int64_t end = std::min(begin + max_length, size);
    parts.push_back(from_end ? std::pair(size - end, size - begin) : std::pair(begin, end));
    if (end == size) return parts;
  }
}

// How many tokens of two texts stay where the longer one loses first.
std::pair<int64_t, int64_t> LongestFirst(int64_t first, int64_t second, int64_t room) {
  const bool swapped = first > second;
  int64_t shorter = std::min(first, second);
  int64_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return swapped ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

void PadTo(int64_t length, const EncodeOptions& options, Encoding* encoding) {
  for (Encoding& part : encoding->overflowing) PadTo(length, options, &part);
  const auto missing = static_cast<size_t>(std::max<int64_t>(length - encoding->size(), 0));
  const auto put = [&](auto* list, auto value) {
    list->insert(options.pad_left ? list->begin() : list->end(), missing, value);
  };
  put(&encoding->ids, options.pad_id);
  put(&encoding->type_ids, options.pad_type_id);
  put(&encoding->offsets, std::pair<int64_t, int64_t>(0, 0));
  put(&encoding->words, -1);
  put(&encoding->texts, -1);
  put(&encoding->is_special, uint8_t{1});
  put(&encoding->attention_mask, uint8_t{0});
}

}  // namespace

void Append(const Encoding& next, Encoding* encoding) {
  std::vector<Encoding> overflowing;
  const auto add = [&overflowing](Encoding part, const Encoding& behind) {
    Append(behind, &part);
    overflowing.push_back(std::move(part));
  };
  for (const Encoding& part : encoding->overflowing) {
    add(part, next);
    for (const Encoding& other : next.overflowing) add(part, other);
  }
  for (const Encoding& other : next.overflowing) add(*encoding, other);
  ForEachList(next, encoding, [](const auto& from, auto& to) { to.insert(to.end(), from.begin(), from.end()); });
  encoding->overflowing = std::move(overflowing);
}

absl::Status Truncate(int64_t max_length, const EncodeOptions& options, Encoding* encoding) {
  if (encoding->size() <= max_length) return absl::OkStatus();
  if (max_length == 0) {
    Encoding whole = std::move(*encoding);
    *encoding = Encoding();
    encoding->overflowing.push_back(std::move(whole));
    return absl::OkStatus();
  }
  if (options.stride >= max_length) {
    return absl::InvalidArgumentError(absl::StrCat("stride is ", options.stride, ", and must be less than the ",
                                                   max_length, " tokens that max_length, ", options.max_length,
                                                   ", leaves for this text"));
  }
  const auto parts = PartsOf(encoding->size(), max_length, options.stride, options.truncate_left);
  Encoding kept = Part(*encoding, parts[0].first, parts[0].second);
  for (size_t i = 1; i < parts.size(); ++i) {
    kept.overflowing.push_back(Part(*encoding, parts[i].first, parts[i].second));
  }
  *encoding = std::move(kept);
  return absl::OkStatus();
}

absl::Status TruncateBoth(int64_t room, const EncodeOptions& options, Encoding* first, Encoding* second) {
  const int64_t sizes[] = {first->size(), second == nullptr ? 0 : second->size()};
  const int64_t excess = sizes[0] + sizes[1] - room;
  if (excess <= 0) return absl::OkStatus();
  if (room == 0 || (options.truncation == Truncation::kLongestFirst && second != nullptr)) {
    const auto [stay, second_stays] =
        room == 0 ? std::pair<int64_t, int64_t>(0, 0) : LongestFirst(sizes[0], sizes[1], room);
    DISTILL_RETURN_IF_ERROR(Truncate(stay, options, first));
    return second == nullptr ? absl::OkStatus() : Truncate(second_stays, options, second);
  }
  const bool cuts_second = options.truncation == Truncation::kOnlySecond;
  if (cuts_second && second == nullptr) {
    return absl::InvalidArgumentError("truncation is only_second, and there is no second text");
  }
  if (sizes[cuts_second] <= excess && options.truncation != Truncation::kLongestFirst) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_length, ", options.max_length, ", would be met only without the ", cuts_second ? "second" : "first",
        " text, the one to be cut: it has ", sizes[cuts_second], " tokens, and ", excess, " are too many"));
  }
  return Truncate(sizes[cuts_second] - excess, options, cuts_second ? second : first);
}

void Pad(const EncodeOptions& options, Encoding* encoding) {
  if (options.pad_to == 0 && options.pad_to_multiple_of == 0) return;
  int64_t length = options.pad_to == 0 ? encoding->size() : options.pad_to;
  if (options.pad_to_multiple_of > 0) {
    length = (length + options.pad_to_multiple_of - 1) / options.pad_to_multiple_of * options.pad_to_multiple_of;
  }
  PadTo(length, options, encoding);
}

}  // namespace distill
