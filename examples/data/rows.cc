#include "examples/data/rows.h"

#include <cstdio>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "examples/data/json_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/rows.h"

namespace distill {
namespace {

std::string FileOf(const std::string& place) { return place.substr(0, place.rfind(':')); }

std::string ColumnsOf(const JsonValue& row) {
  return absl::StrJoin(row.members, ", ", [](std::string* out, const auto& member) { out->append(member.first); });
}

struct FileCount {
  int64_t rows = 0;
  std::string columns;
};

}  // namespace

absl::Status CountRows(const std::string& path, const std::string& split, const RowOptions& options) {
  std::vector<std::string> files;  // in their order
  std::map<std::string, FileCount> counts;
  int64_t all = 0;
  DISTILL_RETURN_IF_ERROR(ForEachRow(path, split, options, [&](const JsonValue& row, const std::string& place) {
    const std::string file = FileOf(place);
    FileCount& count = counts[file];
    if (count.rows++ == 0) {
      files.push_back(file);
      count.columns = ColumnsOf(row);
    }
    ++all;
    return absl::StatusOr<bool>(true);
  }));
  for (const std::string& file : files) {
    std::printf("%s: %lld rows (%s)\n", file.c_str(), static_cast<long long>(counts[file].rows),
                counts[file].columns.c_str());
  }
  std::printf("%lld rows in %zu files\n", static_cast<long long>(all), files.size());
  return absl::OkStatus();
}

absl::Status PrintRows(const std::string& path, const std::string& split, int64_t rows, const RowOptions& options) {
  int64_t printed = 0;
  return ForEachRow(path, split, options, [&](const JsonValue& row, const std::string& place) {
    std::printf("%s\t%s\n", place.c_str(), JsonText(row).c_str());
    return absl::StatusOr<bool>(++printed < rows);
  });
}

absl::Status VerifyRows(const std::string& path, const std::string& split, const RowOptions& options) {
  int64_t rows = 0;
  DISTILL_RETURN_IF_ERROR(
      ForEachRow(path, split, options, [&](const JsonValue&, const std::string&) -> absl::StatusOr<bool> {
        ++rows;
        return true;
      }));
  std::printf("%s: all %lld rows can be read\n", path.c_str(), static_cast<long long>(rows));
  return absl::OkStatus();
}

}  // namespace distill
