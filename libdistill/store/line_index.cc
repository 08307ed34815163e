#include "libdistill/store/line_index.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr IndexKind kIndexOfLines = {"DSTLIN01", ".lines", "the index of its lines"};

bool HasContent(absl::string_view text) { return text.find_first_not_of(" \t\r") != absl::string_view::npos; }

// What a part of the file says of its lines, without what lies before and behind it.
struct Part {
  std::vector<uint64_t> newlines;    // where they are in the file
  std::vector<uint8_t> has_content;  // of what lies before each newline, as far as it is in the part
  bool rest_has_content = false;     // behind the last newline
};

absl::StatusOr<Part> ReadPart(const ReadableFile& file, int64_t begin, int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  DISTILL_RETURN_IF_ERROR(file.ReadAt(begin, absl::MakeSpan(bytes)));
  Part part;
  absl::string_view rest = bytes;
  while (const void* newline = std::memchr(rest.data(), '\n', rest.size())) {
    const auto length = static_cast<size_t>(static_cast<const char*>(newline) - rest.data());
    part.newlines.push_back(static_cast<uint64_t>(begin + (rest.data() - bytes.data())) + length);
    part.has_content.push_back(HasContent(rest.substr(0, length)));
    rest.remove_prefix(length + 1);
  }
  part.rest_has_content = HasContent(rest);
  return part;
}

}  // namespace

// Parts in order, joined to lines.
class LineIndex::Scan {
 public:
  void Add(const Part& part) {
    for (size_t i = 0; i < part.newlines.size(); ++i) {
      End(part.has_content[i] != 0);
      begin_ = part.newlines[i] + 1;
    }
    has_content_ = has_content_ || part.rest_has_content;
  }
  // Where the rows begin, and for each blank line the number of rows before it.
  MadeIndex Finish() {
    if (has_content_) lists_.first.push_back(begin_);
    return std::move(lists_);
  }

 private:
  void End(bool has_content) {
    if (std::exchange(has_content_, false) || has_content) {
      lists_.first.push_back(begin_);
    } else {
      lists_.second.push_back(lists_.first.size());
    }
  }

  MadeIndex lists_;
  uint64_t begin_ = 0;        // of the line that is not at its end
  bool has_content_ = false;  // in the parts before
};

absl::StatusOr<MadeIndex> LineIndex::Make(const ReadableFile& file, const LineIndexOptions& options) {
  Scan scan;
  const auto threads = static_cast<size_t>(std::max<int64_t>(1, options.threads));
  std::vector<std::future<absl::StatusOr<Part>>> ahead;
  for (int64_t begin = 0; begin < file.size();) {
    ahead.clear();
    for (; begin < file.size() && ahead.size() < threads; begin += options.part_bytes) {
      const int64_t size = std::min(options.part_bytes, file.size() - begin);
      const auto read = [&file, begin, size] { return ReadPart(file, begin, size); };
      try {
        ahead.push_back(std::async(threads == 1 ? std::launch::deferred : std::launch::async, read));
      } catch (const std::system_error&) {  // no thread is to be had
        ahead.push_back(std::async(std::launch::deferred, read));
      }
    }
    for (auto& part : ahead) {
      DISTILL_ASSIGN_OR_RETURN(const Part read, part.get());
      scan.Add(read);
    }
  }
  return scan.Finish();
}

absl::StatusOr<std::shared_ptr<const LineIndex>> LineIndex::Open(const ReadableFile& file,
                                                                 const LineIndexOptions& options) {
  std::shared_ptr<LineIndex> index(new LineIndex);
  index->file_bytes_ = file.size();
  DISTILL_ASSIGN_OR_RETURN(
      index->lists_, OpenIndex(file, kIndexOfLines, {.folder = options.folder}, [&] { return Make(file, options); }));
  return index;
}

LineIndex::Line LineIndex::line(int64_t row) const {
  const absl::Span<const uint64_t> begins = lists_.first, all_blanks = lists_.second;
  const auto begin = static_cast<int64_t>(begins[static_cast<size_t>(row)]);
  const int64_t end = row + 1 < size() ? static_cast<int64_t>(begins[static_cast<size_t>(row) + 1]) : file_bytes_;
  const auto blanks =
      std::upper_bound(all_blanks.begin(), all_blanks.end(), static_cast<uint64_t>(row)) - all_blanks.begin();
  return {begin, end - begin, row + 1 + blanks};
}

}  // namespace distill
