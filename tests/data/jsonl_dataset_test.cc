#include "libdistill/data/jsonl_dataset.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/data/labelled_text_dataset.h"
#include "libdistill/data/text_dataset.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/data/streamed_rows.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

std::string Reviews(int64_t rows) {
  std::string text;
  for (int64_t i = 0; i < rows; ++i) {
    absl::StrAppend(&text, "{\"text\": \"", std::string(1 + i % 17, 'a' + i % 26), "\", \"label\": ", i % 3, "}\n");
    if (i % 5 == 0) text += "\n";
  }
  return text;
}

void CheckSame(const Dataset& a, const Dataset& b) {
  REQUIRE(a.size() == b.size());
  for (int64_t i = a.size() - 1; i >= 0; --i) {
    const auto from_a = a.Read(i), from_b = b.Read(i);
    INFO(from_a.status() << " and " << from_b.status());
    REQUIRE(from_a.ok());
    REQUIRE(from_b.ok());
    CHECK(from_a->id == i);
    CHECK(from_a->tensors == from_b->tensors);
    CHECK(a.Length(i).value() == b.Length(i).value());
  }
}

TEST_CASE("labelled texts that are read when they are due are those that are read at once") {
  const TempFolder files;
  files.Write("data/train-0.jsonl", Reviews(120));
  files.Write("data/train-1.jsonl", Reviews(31) + "{\"label\":0,\"text\":\"no newline\"}");
  const LabelledTextOptions options{.split = "train", .max_length = 9};
  const auto loaded = LoadLabelledTextDataset(files.path() + "/data", ByteTokenizer(), options);
  const auto opened =
      OpenLabelledTextDataset(files.path() + "/data", ByteTokenizer(), options, files.path() + "/lines");
  INFO(loaded.status() << " and " << opened.status());
  REQUIRE(loaded.ok());
  REQUIRE(opened.ok());
  CHECK((*opened)->size() == 152);
  CheckSame(**opened, *loaded->samples);
  const auto again = OpenLabelledTextDataset(files.path() + "/data", ByteTokenizer(), options, files.path() + "/lines");
  CHECK((*again)->Fingerprint().value() == (*opened)->Fingerprint().value());
  CHECK((*opened)->MemoryBytes() >= 152 * 8);  // the indices that were made
  CHECK((*again)->MemoryBytes() == 0);         // which are mapped
  CHECK((*OpenLabelledTextDataset(files.path() + "/data", ByteTokenizer(), {.num_samples = 7}))->size() == 7);
}

TEST_CASE("labelled texts of compressed files and CSV are those that are read at once, too") {
  const TempFolder files;
  const std::string csv = files.Write("r.csv", "0,good\n1,\"bad, very\"\n1,worse\n");
  const std::string packed = testing::Compress(files.Write("r.jsonl", Reviews(300)), ".gz");
  for (const std::string& path : {csv, packed}) {
    const LabelledTextOptions options{.rows = {.csv_columns = "label,text"}};
    const auto loaded = LoadLabelledTextDataset(path, ByteTokenizer(), options);
    const auto opened = OpenLabelledTextDataset(path, ByteTokenizer(), options);
    INFO(loaded.status() << " and " << opened.status());
    REQUIRE(loaded.ok());
    REQUIRE(opened.ok());
    CHECK((*opened)->window() > 0);
    CheckSame(**opened, *loaded->samples);
  }
}

TEST_CASE("texts that are read when they are due are those that are read at once") {
  const TempFolder files;
  const std::string path = files.Write("t.jsonl", "\xEF\xBB\xBF" + Reviews(90));
  const TextDatasetOptions options{.max_length = 6};
  const auto loaded = LoadTextDataset(path, ByteTokenizer("<|eot_id|>"), options);
  const auto opened = OpenTextDataset(path, ByteTokenizer("<|eot_id|>"), options);
  REQUIRE(loaded.ok());
  REQUIRE(opened.ok());
  CheckSame(**opened, *loaded->tokens);
}

TEST_CASE("several threads read rows at once") {
  const TempFolder files;
  const std::string path = files.Write("t.jsonl", Reviews(500));
  const auto data = OpenLabelledTextDataset(path, ByteTokenizer(), {});
  REQUIRE(data.ok());
  std::vector<std::thread> threads;
  std::atomic<int64_t> labels = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < (*data)->size(); i += 4) labels += (*(*data)->Read(i)->Get<int64_t>("label"))[0];
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(labels == 166 * 3 + 1);
}

TEST_CASE("a bad row is named with file and line when it is due, and cannot be left out") {
  const TempFolder files;
  const std::string path = files.Write("r.jsonl", "{\"text\":\"a\",\"label\":0}\n\n{\"text\": \n{\"text\":\"b\"}\n");
  const auto data = OpenLabelledTextDataset(path, ByteTokenizer(), {});
  REQUIRE(data.ok());
  CHECK((*data)->Read(0).ok());
  CHECK(absl::StartsWith((*data)->Read(1).status().message(), path + ":3: "));
  CHECK(absl::StartsWith((*data)->Read(2).status().message(), path + ":4: the field 'label' is missing"));
  CHECK((*data)->Read(3).status().code() == absl::StatusCode::kOutOfRange);
  CHECK(absl::StrContains(
      OpenLabelledTextDataset(path, ByteTokenizer(), {.rows = {.bad_rows = BadRows::kSkip}}).status().message(),
      "bad_rows skip needs all rows to be read first"));
}

TEST_CASE("what has no random access is refused by name") {
  const TempFolder files;
  const auto refuses = [&](const std::string& name, const std::string& bytes, const std::string& what) {
    const std::string path = files.Write(name, bytes);
    const absl::Status status = OpenJsonlDataset(path, [](const JsonValue&) { return Sample(); }, {}).status();
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), path + what));
  };
  refuses("a.jsonl.gz", "\x1f\x8b\x08 and more",
          " is compressed, so that no row of it can be read without those before");
  refuses("a.jsonl.zst", "\x28\xb5\x2f\xfd and more", " is compressed");
  refuses("a.parquet", "PAR1 and more", ": rows are read by themselves out of JSON Lines alone");
  refuses("a.csv", "text\na\n", ": rows are read by themselves out of JSON Lines alone");
  refuses("a.jsonl", "\n\n", ": the data set is empty");
  CHECK(absl::StrContains(
      OpenTextDataset(files.Write("b.jsonl", "{}\n"), ByteTokenizer(), {.form = TextForm::kBlocks}).status().message(),
      "blocks of text begin where the texts before them end"));
}

}  // namespace
}  // namespace distill
