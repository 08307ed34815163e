// Parquet files of tests/golden/rows_golden.py as data sets that are streamed, by row group.
#include <algorithm>
#include <string>
#include <vector>

#include "libdistill/data/epoch_order.h"
#include "libdistill/data/row_dataset.h"
#include "libdistill/store/files.h"
#include "tests/data/streamed_rows.h"
#include "tests/store/row_files.h"
#include "tests/support/folders.h"

namespace distill {
namespace {

using testing::AsText;
using testing::TempFolder;

const std::string kGolden = GoldenFolder() + "/rows/";

// A row as text, its letters as numbers.
absl::StatusOr<Sample> TextSample(const JsonValue& row) {
  const std::string text = AsText(row);
  return Sample{0, {{"text", HostTensor(std::vector<uint8_t>(text.begin(), text.end()))}}};
}

std::string TextIn(const absl::StatusOr<Sample>& sample) {
  if (!sample.ok()) return sample.status().ToString();
  const auto bytes = *sample->Get<uint8_t>("text");
  return std::string(bytes.begin(), bytes.end());
}

std::vector<std::string> RowsAtOnce(const std::string& path) {
  std::vector<std::string> rows;
  CHECK(ForEachRow(path, "", {}, [&](const JsonValue& row, const std::string&) -> absl::StatusOr<bool> {
          rows.push_back(AsText(row));
          return true;
        }).ok());
  return rows;
}

TEST_CASE("rows of Parquet that are streamed are those that are read at once, in any order") {
  for (const std::string name : {"plain_none", "plain_zstd", "plain_pages", "nested", "finetome"}) {
    const std::string path = kGolden + name + ".parquet";
    const std::vector<std::string> rows = RowsAtOnce(path);
    for (const int64_t window : {1, 50, 10'000}) {
      INFO(name << ", windows of " << window);
      const auto data = OpenStreamedDataset(path, TextSample, {.window_rows = window});
      REQUIRE(data.ok());
      REQUIRE((*data)->size() == static_cast<int64_t>(rows.size()));
      const EpochOrder order(**data, true, 9, 0);
      for (int64_t place = 0; place < order.size(); ++place) {
        const std::string found = TextIn((*data)->Read(order[place]));
        if (found != rows[static_cast<size_t>(order[place])]) FAIL("row " << order[place] << " is " << found);
      }
      for (int64_t index = (*data)->size() - 1; index >= 0; index -= 37) {  // backwards
        CHECK(TextIn((*data)->Read(index)) == rows[static_cast<size_t>(index)]);
      }
    }
  }
}

TEST_CASE("several files of Parquet are one data set, of which the first rows can be taken") {
  const TempFolder folder;
  std::vector<std::string> rows;
  for (const std::string name : {"plain_gzip", "plain_none", "empty", "plain_snappy"}) {
    folder.Write(absl::StrCat("part-", 1000 + rows.size(), name, ".parquet"), *ReadFile(kGolden + name + ".parquet"));
    for (std::string& row : RowsAtOnce(kGolden + name + ".parquet")) rows.push_back(std::move(row));
  }
  for (const int64_t samples : {0, 499, 500, 501, 640}) {
    const auto data = OpenRowDataset(folder.path(), TextSample, {.num_samples = samples, .window_rows = 30});
    REQUIRE(data.ok());
    REQUIRE((*data)->size() == (samples == 0 ? 1500 : samples));
    int64_t wrong = 0;
    for (int64_t i = 0; i < (*data)->size(); ++i) {
      wrong += TextIn((*data)->Read(i)) == rows[static_cast<size_t>(i)] ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("damaged Parquet is named when it is opened, or when a row of it is due") {
  int64_t refused = 0, failed = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const std::string path = absl::StrCat(kGolden, "bad_", i, ".parquet");
    const auto data = OpenStreamedDataset(path, TextSample, {.window_rows = 50});
    if (!data.ok()) {
      ++refused;
      CHECK(absl::StrContains(data.status().message(), path));
      continue;
    }
    for (int64_t row = 0; row < (*data)->size(); ++row) {
      const auto sample = (*data)->Read(row);
      if (sample.ok()) continue;
      ++failed;
      CHECK(absl::StrContains(sample.status().message(), path));
      break;
    }
  }
  CHECK(refused > 50);
  CHECK(failed > 20);
}

}  // namespace
}  // namespace distill
