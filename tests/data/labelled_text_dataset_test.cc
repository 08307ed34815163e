#include "libdistill/data/labelled_text_dataset.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/data/batches.h"
#include "libdistill/data/collate.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

absl::StatusOr<LabelledTextDataset> Load(const std::string& path, const LabelledTextOptions& options = {}) {
  return LoadLabelledTextDataset(path, ByteTokenizer(), options);
}

TEST_CASE("texts and their labels become batches of padded ids beside labels") {
  const TempFolder files;
  const auto data = Load(files.Write("r.jsonl", R"({"text":"abc","label":2}
{"label":0,"text":"defgh"}
)"),
                         {.max_length = 4});
  INFO(data.status());
  REQUIRE(data.ok());
  CHECK(data->num_labels == 3);
  CHECK(data->summary == "rows 2, labels 3 (1, 0, 1), cut to max_length 4 1");
  CHECK(data->samples->Length(0).value() == 3);
  const auto rows = ReadRows(*data->samples, {{0}, {1}});
  REQUIRE(rows.ok());
  const auto batch = StackRows(*rows, {{"ids", -1}});
  REQUIRE(batch.ok());
  CHECK(*batch->Find("ids") == HostTensor(std::vector<int32_t>{'a', 'b', 'c', -1, 'd', 'e', 'f', 'g'}, {2, 4}));
  CHECK(*batch->Find("ids_lengths") == HostTensor(std::vector<int64_t>{3, 4}));
  CHECK(*batch->Find("label") == HostTensor(std::vector<int64_t>{2, 0}));
}

TEST_CASE("labels may be names, and columns have other names") {
  const TempFolder files;
  const auto data =
      Load(files.Write("r.jsonl", R"({"review":"a","stars":"good"}
{"review":"b","stars":0}
{"review":"c","stars":"bad"}
)"),
           {.text_columns = {"review"}, .label_column = "stars", .labels = {"bad", "good"}, .num_samples = 2});
  REQUIRE(data.ok());
  CHECK(data->num_labels == 2);
  REQUIRE(data->samples->size() == 2);
  CHECK((*data->samples->Read(0)->Get<int64_t>("label"))[0] == 1);
  CHECK((*data->samples->Read(1)->Get<int64_t>("label"))[0] == 0);
}

TEST_CASE("rows of several texts and numbers from 1 are read out of CSV, with a line of names or without") {
  const TempFolder files;
  const LabelledTextOptions options{.text_columns = {"title", "content"}, .delimiter = ": ", .first_label = 1};
  const std::string rows = "2,Good,\"It, too, works\"\n1,Bad,no\n";
  const auto named = Load(files.Write("named.csv", "label,title,content\n" + rows), options);
  LabelledTextOptions unnamed = options;
  unnamed.rows.csv_columns = "label, title, content";
  unnamed.num_threads = 3;
  const auto bare = Load(files.Write("bare.csv", rows), unnamed);
  INFO(named.status() << " and " << bare.status());
  REQUIRE(named.ok());
  REQUIRE(bare.ok());
  CHECK(named->summary == "rows 2, labels 2 (1, 1)");
  CHECK(named->samples->Fingerprint().value() == bare->samples->Fingerprint().value());
  const std::string text = "Good: It, too, works";
  const Sample first = named->samples->Read(0).value();
  CHECK(first.Find("ids").value() == HostTensor(std::vector<int32_t>(text.begin(), text.end())));
  CHECK((*first.Get<int64_t>("label"))[0] == 1);
  CHECK(Load(files.Write("more.csv", rows + "1,a,b\n"), unnamed)->samples->Fingerprint().value() !=
        bare->samples->Fingerprint().value());
}

TEST_CASE("the same texts with any number of threads, and as many as are asked for") {
  const TempFolder files;
  std::string rows;
  for (int i = 0; i < 40'000; ++i) {
    absl::StrAppend(&rows, "{\"text\":\"review ", i, " of many, and of some length\",\"label\":", i % 2, "}\n");
  }
  const std::string path = files.Write("r.jsonl", rows);
  const auto alone = Load(path, {.num_samples = 30'001});
  REQUIRE(alone.ok());
  CHECK(alone->label_counts == std::vector<int64_t>{15'001, 15'000});
  const auto together = Load(path, {.num_samples = 30'001, .num_threads = 4});
  CHECK(together->samples->Fingerprint().value() == alone->samples->Fingerprint().value());
}

TEST_CASE("a pair needs two columns and the tokens between them") {
  const TempFolder files;
  const std::string path = files.Write("r.jsonl", "{\"a\":\"x\",\"b\":\"y\",\"label\":0}\n");
  const auto refuses = [&](const LabelledTextOptions& options, const std::string& what) {
    const absl::Status status = Load(path, options).status();
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), what));
  };
  refuses({.text_columns = {"a"}, .form = TextsForm::kPair, .add_special_tokens = true},
          "a pair is of two texts, but text_columns names 1: a");
  refuses({.text_columns = {"a", "b"}, .form = TextsForm::kPair}, "set add_special_tokens");
  refuses({.text_columns = {}}, "text_columns is empty");
}

TEST_CASE("a row that cannot be used is refused with file and line: none is left out") {
  const TempFolder files;
  const auto refuses = [&](const std::string& row, const LabelledTextOptions& options, const std::string& what) {
    const std::string path = files.Write("r.jsonl", "{\"text\":\"a\",\"label\":0}\n" + row + "\n");
    const absl::Status status = Load(path, options).status();
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), path + ":2: " + what));
  };
  refuses(R"({"text":"a"})", {}, "the field 'label' is missing; the row has 'text'");
  refuses(R"({"label":1})", {}, "the field 'text' is missing");
  refuses(R"({"text":"","label":1})", {}, "the text has no tokens");
  refuses(R"({"text":"a","label":-1})", {}, "'label' is not a whole number from 0");
  refuses(R"({"text":"a","label":0.5})", {}, "'label' is not a whole number from 0");
  refuses(R"({"text":"a","label":true})", {}, "'label' is not a whole number from 0");
  refuses(R"({"text":"a","label":"good"})", {}, "'label' is 'good', which is not among the labels (none are named)");
  refuses(R"({"text":"a","label":"fine"})", {.labels = {"bad", "good"}},
          "'label' is 'fine', which is not among the labels (bad, good)");
  refuses(R"({"text":"a","label":2})", {.labels = {"bad", "good"}},
          "'label' is 2, but there are 2 labels from 0 on; set first_label to 1, if rows count from 1");
  refuses(R"({"text":"a","label":0})", {.labels = {"bad", "good"}, .first_label = 1},
          "'label' is 0, but there are 2 labels from 1 on");
  refuses(R"({"text":"a","label":9007199254740992})", {},
          "'label' is 9007199254740992, but there are at most 1048576 labels from 0 on");
  CHECK(absl::StrContains(Load(files.Write("e.jsonl", "\n")).status().message(), "the data set is empty"));
}

}  // namespace
}  // namespace distill
