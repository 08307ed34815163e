// Rows that are read forwards only: the same samples as at once, in bounded memory, and every fault by its name.
#include "libdistill/data/streamed_dataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "libdistill/data/data_sharder.h"
#include "libdistill/data/loader.h"
#include "libdistill/data/row_dataset.h"
#include "libdistill/store/files.h"
#include "tests/data/streamed_rows.h"

namespace distill {
namespace {

using testing::CanCompress;
using testing::NumberOf;
using testing::TempFolder;
using testing::WriteRows;

const MakeSample kNumber = [](const JsonValue& row) { return NumberOf(row); };

std::shared_ptr<StreamedDataset> Open(const std::string& path, const RowDatasetOptions& options) {
  auto data = OpenStreamedDataset(path, kNumber, options);
  INFO(data.status());
  REQUIRE(data.ok());
  return *std::move(data);
}

void CheckError(const absl::Status& status, absl::StatusCode code, const std::vector<std::string>& parts) {
  INFO(status);
  CHECK(status.code() == code);
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(absl::StrContains(status.message(), part));
  }
}

// The numbers of rows that are kept in a folder.
std::vector<std::string> KeptIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".rows") names.push_back(entry.path().string());
  }
  return names;
}

// In the file that is there, which stays as long as it was.
void Overwrite(const std::string& path, int64_t offset, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset);
  file << bytes;
}

// Every sample once, in an order that an epoch of the data set has, by `threads` at a time; how many were wrong.
int64_t WrongSamples(const StreamedDataset& data, int64_t threads, int64_t epoch) {
  const EpochOrder order(data, /*shuffle=*/true, /*seed=*/3, epoch);
  std::atomic<int64_t> next = 0, wrong = 0;
  std::vector<std::thread> readers;
  for (int64_t t = 0; t < threads; ++t) {
    readers.emplace_back([&] {
      for (int64_t place = next++; place < order.size(); place = next++) {
        const absl::StatusOr<Sample> sample = data.Read(order[place]);
        if (NumberOf(sample) != order[place] || sample->id != order[place]) ++wrong;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  return wrong;
}

TEST_CASE("samples are those of all rows, for any format, number of files, window and number of threads") {
  for (const std::string ending : {".jsonl.gz", ".jsonl.zst", ".jsonl", ".csv", ".csv.gz", ".tsv", ".tsv.zst"}) {
    if (!CanCompress(ending)) continue;
    const TempFolder folder;
    int64_t first = 0;
    for (const int64_t rows : {700, 1, 0, 230}) {
      WriteRows(folder, absl::StrCat("part-", first, "-", rows), ending, first, first + rows);
      first += rows;
    }
    for (const int64_t window : {1, 40, 5000}) {
      const auto data = Open(folder.path(), {.index_folder = folder / "lines", .window_rows = window});
      REQUIRE(data->size() == 931);
      CHECK(data->window() == window);
      for (const int64_t threads : {1, 3}) {
        INFO(ending << ", windows of " << window << ", " << threads << " threads");
        CHECK(WrongSamples(*data, threads, threads) == 0);
      }
      for (const int64_t index : {930, 0, 700, 699, 701, 3}) CHECK(NumberOf(data->Read(index)) == index);
      CheckError(data->Read(931).status(), absl::StatusCode::kOutOfRange, {"there is no sample 931 among 931"});
    }
  }
}

TEST_CASE("an epoch reads the files once and holds three windows and a chunk, whatever their size") {
  const TempFolder folder;
  const std::string path = WriteRows(folder, "large", ".jsonl.gz", 0, 60'000, 100);
  constexpr int64_t kWindow = 300, kRowsOfChunk = (1 << 20) / 70;
  const auto data = Open(path, {.window_rows = kWindow});
  CHECK(data->MemoryBytes() == 0);
  int64_t most = 0;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const EpochOrder order(*data, true, 1, epoch);
    for (int64_t place = 0; place < order.size(); ++place) {
      if (NumberOf(data->Read(order[place])) != order[place]) FAIL("sample " << order[place]);
      if (epoch == 0) most = std::max(most, data->rows_held());
    }
    CHECK(data->starts() == epoch + 1);
  }
  INFO(most << " rows");
  CHECK(most > 2 * kWindow);
  CHECK(most <= 3 * kWindow + kRowsOfChunk);
  CHECK(data->rows_held() <= 2 * (3 * kWindow + kRowsOfChunk));
  // A row is an object of a number and a text of 50 to 149 letters.
  const int64_t bytes = data->MemoryBytes() / data->rows_held();
  INFO(bytes << " bytes a row");
  CHECK(bytes > static_cast<int64_t>(3 * sizeof(JsonValue)) + 100);
  CHECK(bytes < static_cast<int64_t>(4 * sizeof(JsonValue)) + 400);
  // A sample now and then, far apart, is found by reading on.
  const auto sparse = Open(path, {.window_rows = kWindow});
  for (int64_t index = 100; index < 60'000; index += 9'000) CHECK(NumberOf(sparse->Read(index)) == index);
  CHECK(sparse->starts() == 1);
  CHECK(sparse->rows_held() <= 3 * kWindow + kRowsOfChunk);
}

TEST_CASE("a part that trains and one that is held out are read beside one another") {
  const TempFolder folder;
  const auto data = Open(WriteRows(folder, "rows", ".csv.gz", 0, 30'000, 60), {.window_rows = 200});
  int64_t wrong = 0;
  for (int64_t i = 0; i < 14'000; ++i) wrong += NumberOf(data->Read(15'000 + i)) != 15'000 + i;
  for (int64_t i = 0; i < 500; ++i) {
    wrong += NumberOf(data->Read(29'000 + i)) != 29'000 + i;
    wrong += NumberOf(data->Read(i)) != i;
  }
  CHECK(wrong == 0);
  CHECK(data->starts() == 2);
}

using Numbers = std::vector<int64_t>;

// The numbers of rows, 50 a step.
Batches<Numbers> BatchesOf(std::shared_ptr<const Dataset> data) {
  auto sharder = DataSharder::Create(std::move(data), 0, 1, {.rows_per_rank = 50});
  REQUIRE(sharder.ok());
  return Batches<Numbers>(*std::move(sharder), [](absl::Span<const SampleRow> rows) -> absl::StatusOr<Numbers> {
    Numbers numbers;
    for (const SampleRow& row : rows) numbers.push_back(NumberOf(absl::StatusOr<Sample>(row[0])));
    return numbers;
  });
}

void AddSteps(Loader<Numbers>& loader, int64_t steps, Numbers& numbers) {
  for (int64_t step = 0; step < steps; ++step) {
    const auto made = loader.NextStep();
    INFO(made.status());
    REQUIRE(made.ok());
    for (const Numbers& batch : *made) numbers.insert(numbers.end(), batch.begin(), batch.end());
  }
}

void CheckEachOnce(Numbers numbers, int64_t count) {
  CHECK(!std::is_sorted(numbers.begin(), numbers.end()));
  std::sort(numbers.begin(), numbers.end());
  Numbers all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  CHECK(numbers == all);
}

TEST_CASE("a loader's threads read every epoch's samples once, from one start an epoch, also after a resume") {
  const TempFolder folder;
  for (int64_t file = 0; file < 3; ++file) {
    WriteRows(folder, absl::StrCat("rows-", file), ".jsonl.gz", 4'000 * file, 4'000 * (file + 1), 90);
  }
  const RowDatasetOptions options{.window_rows = 500};
  const auto data = Open(folder.path(), options);
  Batches<Numbers> batches = BatchesOf(data);
  Loader<Numbers> loader(batches, {.num_workers = 4}, nullptr, /*steps=*/720);
  std::string position;
  Numbers before;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    Numbers seen;
    AddSteps(loader, 140, seen);
    before = seen;
    position = loader.Position();
    AddSteps(loader, 100, seen);
    CheckEachOnce(seen, 12'000);
  }
  CHECK(data->starts() == 3);
  // Another process, in the middle of the third epoch.
  const auto again = Open(folder.path(), options);
  Batches<Numbers> resumed = BatchesOf(again);
  Loader<Numbers> rest(resumed, {.num_workers = 4}, nullptr, /*steps=*/100);
  REQUIRE(rest.Restore(position) == absl::OkStatus());
  AddSteps(rest, 100, before);
  CheckEachOnce(before, 12'000);
  CHECK(again->starts() == 1);
}

TEST_CASE("lengths are those of the samples, so rows are packed and budgets kept") {
  const TempFolder folder;
  const auto data = Open(WriteRows(folder, "rows", ".jsonl.gz", 0, 900), {.length_of = "ids", .window_rows = 100});
  CHECK(*data->Length(6) == 13);  // 10 + 42 mod 20 letters
  for (const ShardOptions options :
       {ShardOptions{.packing = true, .max_length = 64}, ShardOptions{.max_tokens_per_batch = 200, .max_length = 64}}) {
    auto sharder = DataSharder::Create(data, 0, 1, options);
    REQUIRE(sharder.ok());
    std::vector<int64_t> seen;
    while (sharder->epoch() == 0) {
      const auto step = sharder->NextStep();
      REQUIRE(step.ok());
      for (const IndexRows& rows : *step) {
        for (const auto& row : rows) seen.insert(seen.end(), row.begin(), row.end());
      }
    }
    std::sort(seen.begin(), seen.end());
    CHECK(seen.size() == 900);
    CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end());
  }
  CHECK(*Open(folder.path(), {})->Length(6) == 1);
}

TEST_CASE("the number of rows is kept, and counted anew where a file changes") {
  const TempFolder folder;
  const std::string path = WriteRows(folder, "rows", ".jsonl.gz", 0, 100);
  const RowDatasetOptions options{.index_folder = folder / "lines"};
  const auto data = Open(path, options);
  REQUIRE(KeptIn(options.index_folder).size() == 1);
  const std::string name = KeptIn(options.index_folder)[0], bytes = *ReadFile(name);
  CHECK(bytes.size() == 40 + 8);
  CHECK(absl::StartsWith(bytes, "DSTROW01"));
  // Nothing is read where it is kept: bytes that are other ones without a trace are found when they are due.
  const auto written = std::filesystem::last_write_time(path);
  const std::string rows = folder.Read("rows.jsonl.gz");
  Overwrite(path, static_cast<int64_t>(rows.size()) / 2, "xxxxxxxx");
  std::filesystem::last_write_time(path, written);
  CheckError(Open(path, options)->Read(99).status(), absl::StatusCode::kDataLoss, {path, "damaged gzip data"});
  CheckError(OpenStreamedDataset(path, kNumber, {}).status(), absl::StatusCode::kDataLoss, {path, "after line 0"});
  Overwrite(path, 0, rows);
  std::filesystem::last_write_time(path, written);
  folder.Write("lines/" + std::filesystem::path(name).filename().string(), bytes.substr(0, 47));  // damaged
  CHECK(Open(path, options)->size() == 100);
  CHECK(*ReadFile(name) == bytes);
  const std::string before = *data->Fingerprint();
  CHECK(*Open(path, options)->Fingerprint() == before);
  WriteRows(folder, "rows", ".jsonl.gz", 0, 101);
  CHECK(Open(path, options)->size() == 101);
  CHECK(KeptIn(options.index_folder).size() == 2);
  CHECK(*Open(path, options)->Fingerprint() != before);
  // A copy elsewhere, as another host has it, has the same fingerprint.
  const TempFolder copy;
  std::filesystem::copy(path, copy / "rows.jsonl.gz");
  CHECK(*Open(copy / "rows.jsonl.gz", {})->Fingerprint() == *Open(path, options)->Fingerprint());
}

TEST_CASE("whether a CSV file has a line of names is part of what is kept") {
  const TempFolder folder;
  const std::string path = folder.Write("a.csv", "1,x\n2,y\n3,z\n");
  const RowDatasetOptions named{.rows = {.csv_columns = "n,text"}, .index_folder = folder / "lines"};
  CHECK(Open(path, named)->size() == 3);
  CHECK(Open(path, {.rows = {.columns = "n=1"}, .index_folder = folder / "lines"})->size() == 2);
  CHECK(Open(path, named)->size() == 3);
  CHECK(NumberOf(Open(path, named)->Read(0)) == 1);
}

TEST_CASE("of the first samples, what lies behind them is neither read nor checked") {
  const TempFolder folder;
  const std::string path = WriteRows(folder, "a", ".jsonl.gz", 0, 40'000, 90);
  WriteRows(folder, "b", ".jsonl.gz", 40'000, 40'100);
  const std::string whole = folder.Read("a.jsonl.gz");
  folder.Write("a.jsonl.gz", whole.substr(0, whole.size() / 2));
  CheckError(OpenStreamedDataset(path, kNumber, {}).status(), absl::StatusCode::kDataLoss,
             {path, "damaged gzip data", "it ends in the middle", "reading failed in the line after line "});
  const auto first = Open(path, {.num_samples = 500, .index_folder = folder / "lines"});
  CHECK(first->size() == 500);
  CHECK(WrongSamples(*first, 2, 0) == 0);
  CHECK(KeptIn(folder / "lines").empty());  // of a part of a file
  folder.Write("a.jsonl.gz", whole);
  for (const int64_t samples : {39'999, 40'000, 40'001, 40'100, 50'000}) {
    const auto data = Open(folder.path(), {.num_samples = samples, .window_rows = 100});
    CHECK(data->size() == std::min<int64_t>(samples, 40'100));
    CHECK(NumberOf(data->Read(data->size() - 1)) == data->size() - 1);
  }
}

TEST_CASE("a bad row is named with file and line when it is due") {
  const TempFolder folder;
  const std::string path = testing::Compress(
      folder.Write("a.jsonl", "{\"n\": 0}\n\n{\"n\": \n{\"m\": 2}\n{\"n\": \"x\"}\n{\"n\": 4}"), ".gz");
  const auto data = Open(path, {});
  CHECK(data->size() == 5);
  CHECK(NumberOf(data->Read(0)) == 0);
  CheckError(data->Read(1).status(), absl::StatusCode::kInvalidArgument, {path + ":3: "});
  CheckError(data->Read(2).status(), absl::StatusCode::kInvalidArgument, {path + ":4: the field 'n' is missing"});
  CheckError(data->Read(3).status(), absl::StatusCode::kInvalidArgument, {path + ":5: 'n' is 'x', which is no number"});
  CHECK(NumberOf(data->Read(4)) == 4);
  CheckError(OpenStreamedDataset(path, kNumber, {.rows = {.bad_rows = BadRows::kSkip}}).status(),
             absl::StatusCode::kInvalidArgument, {"bad_rows skip needs all rows to be read first"});
  CheckError(Open(path, {.rows = {.columns = "n=number"}})->Read(0).status(), absl::StatusCode::kInvalidArgument,
             {path + ":1: ", "'number'"});
}

TEST_CASE("a file that is damaged, cut or written over while it is read is an error of the rows that are due") {
  const TempFolder folder;
  for (const bool is_cut : {true, false}) {
    const std::string path = WriteRows(folder, "a", ".jsonl.gz", 0, 60'000, 100);
    const auto data = Open(path, {.window_rows = 100});
    CHECK(NumberOf(data->Read(5)) == 5);
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
    if (is_cut) {
      std::filesystem::resize_file(path, static_cast<uintmax_t>(size / 3 * 2));
    } else {
      Overwrite(path, size / 2, std::string(64, 'x'));
    }
    const absl::Status lost = data->Read(59'000).status();
    CheckError(lost, absl::StatusCode::kDataLoss, {path, "reading failed in the line after line "});
    CHECK(NumberOf(data->Read(7)) == 7);  // what comes before the damage can be read again
    CHECK(data->Read(59'000).status().code() == absl::StatusCode::kDataLoss);
  }
  // Other rows than were counted: line ends that became spaces, and the other way round.
  for (const auto& [from, to] : {std::pair('\n', ' '), std::pair(' ', '\n')}) {
    const std::string path = folder.Write("b.csv", "n,text\n1,a b\n2,c d\n3,e f\n4,g h\n5,i j\n");
    const auto data = Open(path, {});
    std::string bytes = folder.Read("b.csv");
    std::replace(bytes.begin() + 14, bytes.end() - 1, from, to);
    Overwrite(path, 0, bytes);
    CheckError(data->Read(4).status(), absl::StatusCode::kDataLoss, {path, "rows, but 5 were counted"});
  }
}

TEST_CASE("what cannot be streamed is refused, with what to do") {
  const TempFolder folder;
  const auto refuses = [&](const std::string& path, const std::vector<std::string>& parts,
                           const RowDatasetOptions& options = {}) {
    CheckError(OpenRowDataset(path, kNumber, options).status(), absl::StatusCode::kInvalidArgument, parts);
    CheckError(OpenStreamedDataset(path, kNumber, options).status(), absl::StatusCode::kInvalidArgument, parts);
  };
  const std::string pipe = folder / "pipe.jsonl";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  refuses(pipe, {pipe, "is a pipe", "tokenize"});
  refuses(testing::Compress(folder.Write("a.jsonl", "\n\n"), ".gz"), {"a.jsonl.gz: the data set is empty"});
  refuses(folder.Write("b.jsonl.gz", ""), {"b.jsonl.gz", "its name says gzip"});
  refuses(folder.Write("c.csv", "n,text\n"), {"c.csv: the data set is empty"});
  refuses(folder.Write("d.xlsx", "PK\3\4 and more"), {"d.xlsx"});
  refuses(WriteRows(folder, "e", ".csv", 0, 3), {"window_rows is 0"}, {.window_rows = 0});
  refuses(WriteRows(folder, "e", ".csv", 0, 3), {"num_samples -1"}, {.num_samples = -1});
  CheckError(OpenRowDataset(folder / "none", kNumber, {}).status(), absl::StatusCode::kNotFound, {folder / "none"});
}

TEST_CASE("one call reads rows at random where the format can, and streams them where it cannot") {
  const TempFolder folder;
  const RowDatasetOptions options{.num_samples = 30, .length_of = "ids", .index_folder = folder / "lines"};
  const auto plain = OpenRowDataset(WriteRows(folder, "plain/a", ".jsonl", 0, 50), kNumber, options);
  const auto packed = OpenRowDataset(WriteRows(folder, "packed/a", ".jsonl.gz", 0, 50), kNumber, options);
  WriteRows(folder, "both/a", ".jsonl", 0, 20);
  WriteRows(folder, "both/b", ".jsonl.gz", 20, 50);
  const auto both = OpenRowDataset(folder / "both", kNumber, options);
  for (const auto* data : {&plain, &packed, &both}) {
    INFO(data->status());
    REQUIRE(data->ok());
    CHECK((**data)->window() == (data == &plain ? 0 : 8192));
    REQUIRE((**data)->size() == 30);
    for (int64_t i = 0; i < 30; ++i) {
      CHECK(NumberOf((**data)->Read(i)) == i);
      CHECK(*(**data)->Length(i) == *(*plain)->Length(i));
    }
  }
}

}  // namespace
}  // namespace distill
