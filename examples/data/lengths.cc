#include "examples/data/lengths.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/store/file_writer.h"

namespace distill {
namespace {

constexpr int64_t kRanges = 20;
constexpr int64_t kBarLetters = 50;

struct LengthRange {
  int64_t first = 0;
  int64_t last = 0;
  int64_t count = 0;
};

// Equally wide ones, of a width that is easy to read: 1, 2 or 5 times a power of ten.
std::vector<LengthRange> RangesOf(const Lengths& lengths) {
  const int64_t longest = lengths.back();
  int64_t width = 1;
  for (int64_t power = 1; width * kRanges < longest; power *= 10) {
    for (const int64_t times : {1, 2, 5}) {
      width = times * power;
      if (width * kRanges >= longest) break;
    }
  }
  std::vector<LengthRange> ranges;
  for (int64_t first = 1; first <= longest; first += width) ranges.push_back({first, first + width - 1, 0});
  for (const int64_t length : lengths) ++ranges[static_cast<size_t>((std::max<int64_t>(length, 1) - 1) / width)].count;
  return ranges;
}

int64_t MostOf(const std::vector<LengthRange>& ranges) {
  return std::max_element(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.count < b.count; })->count;
}

int64_t Percentile(const Lengths& lengths, double share) {
  return lengths[static_cast<size_t>(share * static_cast<double>(lengths.size() - 1))];
}

// A data set of which no sample is read.
class OnlyLengths : public Dataset {
 public:
  explicit OnlyLengths(const Lengths& lengths) : lengths_(lengths) {}
  int64_t size() const override { return static_cast<int64_t>(lengths_.size()); }
  absl::StatusOr<int64_t> Length(int64_t index) const override { return lengths_[static_cast<size_t>(index)]; }
  absl::StatusOr<Sample> Read(int64_t) const override { return absl::UnimplementedError("it has lengths alone"); }
  absl::StatusOr<std::string> Fingerprint() const override { return std::string("lengths"); }

 private:
  const Lengths& lengths_;
};

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

}  // namespace

absl::StatusOr<Lengths> LengthsOf(const Dataset& dataset) {
  Lengths lengths;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(const int64_t length, dataset.Length(i));
    lengths.push_back(length);
  }
  return lengths;
}

Lengths Sorted(Lengths lengths) {
  std::sort(lengths.begin(), lengths.end());
  return lengths;
}

std::string DescribeLengths(const Lengths& lengths, int64_t max_length, const std::string& unit) {
  const std::vector<LengthRange> ranges = RangesOf(lengths);
  const int64_t most = MostOf(ranges);
  std::string text = absl::StrFormat("%-17s samples\n", unit);
  for (const LengthRange& range : ranges) {
    const auto letters = static_cast<size_t>((range.count * kBarLetters + most - 1) / most);
    absl::StrAppendFormat(&text, "%6d to %6d %8d %s\n", range.first, range.last, range.count,
                          std::string(letters, '#'));
  }
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  absl::StrAppendFormat(&text, "%d samples, %d %s; mean %.1f, median %d, 95 %% up to %d, longest %d", lengths.size(),
                        tokens, unit, static_cast<double>(tokens) / static_cast<double>(lengths.size()),
                        Percentile(lengths, 0.5), Percentile(lengths, 0.95), lengths.back());
  if (max_length > 0) {
    const auto full = lengths.end() - std::lower_bound(lengths.begin(), lengths.end(), max_length);
    absl::StrAppendFormat(&text, "; %d as long as max_length, %d", full, max_length);
  }
  text += "\n";
  return text;
}

absl::Status DrawLengths(const Lengths& lengths, const std::string& title, const std::string& file) {
  constexpr int kWidth = 640, kHeight = 360, kLeft = 60, kBottom = 40, kTop = 30;
  const std::vector<LengthRange> ranges = RangesOf(lengths);
  const int64_t most = MostOf(ranges);
  const double step = static_cast<double>(kWidth - kLeft - 10) / static_cast<double>(ranges.size());
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" y=\"18\">%s: %d "
      "samples by their tokens</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%d</text>\n",
      kWidth, kHeight, kLeft, Escaped(title), lengths.size(), kLeft - 6, kTop + 10, most);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const double height = (kHeight - kTop - kBottom) * static_cast<double>(ranges[i].count) / static_cast<double>(most);
    const double left = kLeft + step * static_cast<double>(i), base = kHeight - kBottom;
    absl::StrAppendFormat(&svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#4472c4\"/>\n", left,
                          base - height, step * 0.9, height);
    if (i % 4 == 0)
      absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.1f\">%d</text>\n", left, base + 16, ranges[i].first);
  }
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> writer, CreateFile(file));
  DISTILL_RETURN_IF_ERROR(writer->Append(svg + "</svg>\n"));
  return writer->Commit();
}

absl::StatusOr<double> PaddingOf(const Lengths& lengths, const ShardOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder,
                           DataSharder::Create(std::make_shared<OnlyLengths>(lengths), 0, 1, options));
  DISTILL_ASSIGN_OR_RETURN(const int64_t steps, sharder.StepsInEpoch(0));
  int64_t places = 0, used = 0;
  for (int64_t step = 0; step < steps; ++step) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<IndexRows> made, sharder.NextStep());
    for (const IndexRows& batch : made) {
      int64_t longest = 0;
      for (const std::vector<int64_t>& row : batch) {
        int64_t length = 0;
        for (const int64_t sample : row) length += std::min(lengths[static_cast<size_t>(sample)], options.max_length);
        longest = std::max(longest, length);
        used += length;
      }
      places += longest * static_cast<int64_t>(batch.size());
    }
  }
  return places == 0 ? 0.0 : 1.0 - static_cast<double>(used) / static_cast<double>(places);
}

absl::Status PrintPadding(const Lengths& lengths, int64_t rows, int64_t max_length, bool with_packing) {
  ShardOptions how{.rows_per_rank = rows, .max_length = std::max<int64_t>(max_length, 2)};
  DISTILL_ASSIGN_OR_RETURN(const double shuffled, PaddingOf(lengths, how));
  std::string text = absl::StrFormat("padding of shuffled batches of %d rows: %.1f %%", rows, 100 * shuffled);
  if (with_packing) {
    how.packing = true;
    DISTILL_ASSIGN_OR_RETURN(const double packed, PaddingOf(lengths, how));
    absl::StrAppendFormat(&text, "; with packing: %.1f %%", 100 * packed);
    how.packing = false;
  }
  if (*std::max_element(lengths.begin(), lengths.end()) > 1) {
    how.group_by_length = true;
    DISTILL_ASSIGN_OR_RETURN(const double grouped, PaddingOf(lengths, how));
    absl::StrAppendFormat(&text, "; with group_by_length: %.1f %%", 100 * grouped);
  }
  std::printf("%s\n", text.c_str());
  return absl::OkStatus();
}

}  // namespace distill
