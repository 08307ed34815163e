// Rows that are streamed out of a real S3 server, over its faults.
#include <filesystem>
#include <string>

#include "libdistill/data/epoch_order.h"
#include "libdistill/data/row_dataset.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/files.h"
#include "tests/data/streamed_rows.h"
#include "tests/support/s3.h"

namespace distill::testing {
namespace {

const MakeSample kNumber = [](const JsonValue& row) { return NumberOf(row); };

void Put(const std::string& path, const std::string& bytes) {
  auto file = CreateFile(path);
  REQUIRE(file.ok());
  REQUIRE((*file)->Append(bytes) == absl::OkStatus());
  REQUIRE((*file)->Commit() == absl::OkStatus());
}

// Of an epoch's samples.
int64_t Wrong(const Dataset& data, int64_t epoch) {
  const EpochOrder order(data, true, 1, epoch);
  int64_t wrong = 0;
  for (int64_t place = 0; place < order.size(); ++place) wrong += NumberOf(data.Read(order[place])) != order[place];
  return wrong;
}

TEST_CASE("rows are streamed out of S3, over its faults, and their number is kept under the object's version") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const TempFolder folder;
  const std::string bucket = server.Bucket(), path = bucket + "/rows";
  Put(path + "/a.csv.gz", *ReadFile(WriteRows(folder, "a", ".csv.gz", 0, 20'000, 60)));
  Put(path + "/b.csv", *ReadFile(WriteRows(folder, "b", ".csv", 20'000, 25'000, 60)));
  server.Fault({{"GET /", "status 503 SlowDown", 1}, {"GET /", "short", 1}});
  const RowDatasetOptions options{.index_folder = folder / "lines", .window_rows = 500};
  const auto data = OpenRowDataset(path, kNumber, options);
  INFO(data.status());
  REQUIRE(data.ok());
  REQUIRE((*data)->size() == 25'000);
  server.Fault({{"bytes=", "status 503 SlowDown", 2}});
  CHECK(Wrong(**data, 0) == 0);
  const std::string fingerprint = *(*data)->Fingerprint();
  CHECK(*(*OpenRowDataset(path, kNumber, options))->Fingerprint() == fingerprint);

  // An object that is replaced while it is read: its rows never meet those of the other one.
  const auto before = OpenStreamedDataset(path, kNumber, options);
  REQUIRE(before.ok());
  CHECK(NumberOf((*before)->Read(0)) == 0);
  Put(path + "/b.csv", *ReadFile(WriteRows(folder, "b", ".csv", 30'000, 36'000, 60)));
  const absl::Status replaced = (*before)->Read(24'000).status();
  INFO(replaced);
  CHECK(replaced.code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(replaced.message(), path + "/b.csv"));
  const auto after = OpenStreamedDataset(path, kNumber, options);
  REQUIRE(after.ok());
  CHECK((*after)->size() == 26'000);
  CHECK(NumberOf((*after)->Read(25'999)) == 35'999);
  CHECK(*(*after)->Fingerprint() != fingerprint);
}

}  // namespace
}  // namespace distill::testing
