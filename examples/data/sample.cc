#include "examples/data/sample.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "examples/data/json_text.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/rows.h"
#include "libdistill/store/file_writer.h"

namespace distill {
namespace {

struct NumberedRow {
  int64_t number = 0;  // in the data set
  std::string text;
};

// A uniform sample of rows that come one after the other, of at most so many: Vitter, "Random sampling with a
// reservoir", 1985, algorithm R.
class Reservoir {
 public:
  Reservoir(size_t most, uint64_t seed, uint64_t stream) : most_(most), random_(seed, stream) {}

  void Add(NumberedRow row) {
    ++seen_;
    if (rows_.size() < most_) return rows_.push_back(std::move(row));
    const uint64_t place = random_.Below(seen_);
    if (place < most_) rows_[place] = std::move(row);
  }
  // So many of what was kept: the first ones in the order of their numbers would be no random ones.
  std::vector<NumberedRow> Take(size_t count) {
    for (size_t i = 0; i < count; ++i) std::swap(rows_[i], rows_[i + random_.Below(rows_.size() - i)]);
    rows_.resize(count);
    return std::move(rows_);
  }
  size_t size() const { return rows_.size(); }
  uint64_t seen() const { return seen_; }

 private:
  const size_t most_;
  Random random_;
  uint64_t seen_ = 0;
  std::vector<NumberedRow> rows_;
};

// How many of each, so that all get the same as far as they have it.
std::vector<size_t> SharesOf(const std::vector<size_t>& have, size_t wanted) {
  std::vector<size_t> shares(have.size(), 0);
  for (size_t left = wanted, open = have.size(); left > 0 && open > 0;) {
    const size_t each = std::max<size_t>(1, left / open);
    open = 0;
    for (size_t i = 0; i < have.size() && left > 0; ++i) {
      const size_t more = std::min({each, have[i] - shares[i], left});
      shares[i] += more;
      left -= more;
      open += shares[i] < have[i];
    }
  }
  return shares;
}

absl::StatusOr<std::string> LabelOf(const JsonValue& row, const std::string& name) {
  if (name.empty()) return std::string();
  DISTILL_ASSIGN_OR_RETURN(const JsonValue* value, FieldOf(row, name));
  if (value->kind == JsonValue::Kind::kString || value->kind == JsonValue::Kind::kNumber ||
      value->kind == JsonValue::Kind::kBool) {
    return JsonText(*value);
  }
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no string, number or truth value, so no label"));
}

}  // namespace

absl::Status CheckSampleName(const std::string& file) {
  if (absl::EndsWith(file, ".jsonl")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": a sample is written as JSON Lines, uncompressed: give it a name that ends in .jsonl"));
}

absl::Status SampleRows(const std::string& path, const std::string& file, const DataOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckSampleName(file));
  std::map<std::string, Reservoir> by_label;
  const auto most = static_cast<size_t>(options.rows);
  int64_t number = 0;
  DISTILL_RETURN_IF_ERROR(ForEachRow(
      path, options.split, options.reading, [&](const JsonValue& row, const std::string&) -> absl::StatusOr<bool> {
        DISTILL_ASSIGN_OR_RETURN(const std::string label, LabelOf(row, options.label));
        by_label.try_emplace(label, most, options.seed, by_label.size()).first->second.Add({number++, JsonText(row)});
        return true;
      }));
  std::vector<size_t> have;
  for (const auto& [label, rows] : by_label) have.push_back(rows.size());
  const std::vector<size_t> shares = SharesOf(have, most);
  std::vector<NumberedRow> drawn;
  size_t place = 0;
  for (auto& [label, rows] : by_label) {
    if (!options.label.empty()) {
      std::printf("%s %s: %zu of %llu rows\n", options.label.c_str(), label.c_str(), shares[place],
                  static_cast<unsigned long long>(rows.seen()));
    }
    for (NumberedRow& row : rows.Take(shares[place])) drawn.push_back(std::move(row));
    ++place;
  }
  std::sort(drawn.begin(), drawn.end(), [](auto& a, auto& b) { return a.number < b.number; });
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> writer, CreateFile(file));
  for (const NumberedRow& row : drawn) DISTILL_RETURN_IF_ERROR(writer->Append(row.text + "\n"));
  DISTILL_RETURN_IF_ERROR(writer->Commit());
  std::printf("%s -> %s: %zu of %lld rows\n", path.c_str(), file.c_str(), drawn.size(), static_cast<long long>(number));
  return absl::OkStatus();
}

}  // namespace distill
