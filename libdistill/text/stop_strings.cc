#include "libdistill/text/stop_strings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace distill {

std::string StopStrings::Add(absl::string_view piece) {
  if (found_) return "";
  waiting_.append(piece.data(), piece.size());
  size_t first_end = std::string::npos, begin = 0;
  for (const std::string& string : strings_) {
    const size_t at = waiting_.find(string);
    if (at == std::string::npos) continue;
    const size_t end = at + string.size();
    if (end > first_end || (end == first_end && at > begin)) continue;
    first_end = end, begin = at;
  }
  found_ = first_end != std::string::npos;
  const size_t shown = found_ ? begin : waiting_.size() - WaitingBytes();
  std::string text = waiting_.substr(0, shown);
  waiting_ = found_ ? "" : waiting_.substr(shown);
  return text;
}

std::string StopStrings::Finish() { return std::exchange(waiting_, ""); }

// The longest end of the text with which a string begins.
size_t StopStrings::WaitingBytes() const {
  size_t longest = 0;
  for (const std::string& string : strings_) {
    for (size_t size = std::min(string.size() - 1, waiting_.size()); size > longest; --size) {
      if (absl::EndsWith(waiting_, absl::string_view(string).substr(0, size))) longest = size;
    }
  }
  return longest;
}

}  // namespace distill
