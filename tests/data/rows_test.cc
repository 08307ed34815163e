// Which files a path stands for, and which columns rows have.
#include "libdistill/data/rows.h"

#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/data/chat_row.h"
#include "libdistill/data/column_names.h"
#include "libdistill/data/row_files.h"
#include "tests/data/chat_files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

// "role: content" of each message, those without loss in brackets; or the error.
std::string Messages(const std::string& json) {
  const absl::StatusOr<Conversation> conversation = ParseChatRow(*ParseJson(json));
  if (!conversation.ok()) return std::string(conversation.status().message());
  return absl::StrJoin(conversation->messages, " | ", [](std::string* out, const ChatMessage& message) {
    const bool is_context = message.role == "assistant" && !message.has_loss;
    absl::StrAppend(out, is_context ? "[" : "", message.role, ": ", message.content, is_context ? "]" : "");
  });
}

TEST_CASE("rows of one question and its answer become conversations") {
  CHECK(Messages(R"({"prompt": "2+2?", "completion": "4"})") == "user: 2+2? | assistant: 4");
  CHECK(Messages(R"({"question": "2+2?", "answer": "4", "id": 7})") == "user: 2+2? | assistant: 4");
  CHECK(Messages(R"({"instruction": "Add.", "input": "2 2", "output": "4"})") == "user: Add.\n\n2 2 | assistant: 4");
  CHECK(Messages(R"({"instruction": "Add.", "input": "", "output": "4"})") == "user: Add. | assistant: 4");
  CHECK(Messages(R"({"instruction": "Add.", "input": null, "response": "4"})") == "user: Add. | assistant: 4");
  CHECK(Messages(R"({"system": "Be brief.", "instruction": "Add.", "output": "4"})") ==
        "system: Be brief. | user: Add. | assistant: 4");
  CHECK(Messages(R"({"prompt": "a", "completion": "b", "messages": [{"role": "user", "content": "c"}]})") == "user: c");
}

TEST_CASE("a prompt and a completion may be lists of messages, of which the completion's are trained") {
  CHECK(Messages(R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                                {"role": "user", "content": "c"}],
                     "completion": [{"role": "assistant", "content": "d"}]})") ==
        "user: a | [assistant: b] | user: c | assistant: d");
  CHECK(absl::StrContains(Messages(R"({"prompt": [{"role": "user"}], "completion": "x"})"),
                          "prompt[0]: the field 'content' is missing"));
}

TEST_CASE("columns of another kind are named") {
  CHECK(absl::StrContains(Messages(R"({"question": 7, "answer": "4"})"), "'question' is not a string"));
  CHECK(absl::StrContains(Messages(R"({"question": "7"})"), "nor one question and its answer"));
}

TEST_CASE("columns are called as libdistill reads them") {
  JsonValue row = *ParseJson(R"({"chat": [1], "messages": "old", "reply": "x", "other": 2})");
  REQUIRE(ColumnNames::Parse(" messages = chat , answer=reply")->Rename(row) == absl::OkStatus());
  CHECK(row.members.size() == 3);
  CHECK(row.Find("messages")->items.size() == 1);
  CHECK(row.Find("answer")->text == "x");
  CHECK(row.Find("chat") == nullptr);
  const absl::Status missing = ColumnNames::Parse("messages=talk")->Rename(row);
  CHECK(missing.message() ==
        "there is no column 'talk', which dataset_columns names; the row has 'other', 'messages', 'answer'");
  for (const char* text : {"messages", "a=b=c", "=b", "a=", "a=b,a=c"}) {
    CHECK(absl::StrContains(ColumnNames::Parse(text).status().message(), "dataset_columns has '"));
  }
  CHECK(ColumnNames::Parse("").ok());
}

TEST_CASE("renamed columns of CSV make a chat data set") {
  const TempFolder folder;
  const std::string path = folder.Write("qa.csv", "id,Question,Best Answer\n1,2+2?,4\n2,\"3,3?\",6\n");
  ChatDatasetOptions options;
  options.rows.columns = "question=Question,answer=Best Answer";
  const auto data = LoadChat(path, options);
  INFO(data.status());
  REQUIRE(data.ok());
  CHECK(data->summary == "rows 2, used 2; fields that are not read: 'id'");
  CHECK(data->conversations[1].messages[0].content == "3,3?");
  const absl::Status status = LoadChat(path).status();
  INFO(status);
  CHECK(absl::StrContains(status.message(), "name its columns with dataset_columns"));
}

TEST_CASE("a row of plain text is trained from its first token to its last") {
  const TempFolder folder;
  const auto data = LoadChat(folder.Write("a.jsonl", "{\"text\": \"hello\", \"url\": \"x\"}\n"));
  INFO(data.status());
  REQUIRE(data.ok());
  CHECK(data->summary == "rows 1, used 1; fields that are not read: 'url'");
  const Sample sample = *data->tokens->Read(0);
  for (const uint8_t target : *sample.Get<uint8_t>("is_target")) CHECK(target == 1);
  CHECK(
      absl::StrContains(LoadChat(folder.Write("b.jsonl", "{\"text\": \"\"}\n")).status().message(), "'text' is empty"));
}

TEST_CASE("a folder's files are those of the split, also in data/, in order of name") {
  const TempFolder folder;
  const auto found = [&](const std::string& split) {
    const auto files = FindRowFiles(folder.path(), split);
    if (!files.ok()) return std::string(files.status().message());
    return absl::StrJoin(*files, " ",
                         [&](std::string* out, const std::string& path) { *out += path.substr(folder.path().size()); });
  };
  folder.Write("README.md", "x");
  folder.Write("data/train-00001-of-00002.parquet", "");
  folder.Write("data/train-00000-of-00002.parquet", "");
  folder.Write("data/test-00000-of-00001.parquet", "");
  CHECK(found("train") == "/data/train-00000-of-00002.parquet /data/train-00001-of-00002.parquet");
  folder.Write("train.jsonl.gz", "");
  folder.Write("train2.jsonl", "");
  folder.Write("train.txt", "");
  CHECK(found("train") == "/train.jsonl.gz /train2.jsonl");
  folder.Write("train.csv", "");
  CHECK(absl::StrContains(found("train"), "holds rows in several formats (train.csv, train.jsonl.gz, ...)"));
  CHECK(absl::StrContains(found("valid"), "no file matches valid*.jsonl"));
  CHECK(absl::StrContains(FindRowFiles(folder / "none", "").status().message(), "no such file"));
}

TEST_CASE("of a data set of the hub Parquet files are taken, whatever copies lie beside them") {
  const TempFolder folder;
  const std::string snapshot = "datasets--org--rows/snapshots/" + std::string(40, 'a');
  for (const char* name : {"/train.csv", "/train.jsonl", "/train.parquet", "/data/train.parquet", "/data/train.csv"}) {
    folder.Write(snapshot + name, "");
    folder.Write("elsewhere" + std::string(name), "");
  }
  for (const char* below : {"", "/data"}) {
    const auto files = FindRowFiles(folder / (snapshot + below), "train");
    INFO(files.status());
    REQUIRE(files.ok());
    CHECK(*files == std::vector<std::string>{folder / (snapshot + below + "/train.parquet")});
    CHECK(absl::IsInvalidArgument(FindRowFiles(folder / ("elsewhere" + std::string(below)), "train").status()));
  }
}

TEST_CASE("a data set may come through a pipe, whose rows can be read once") {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(CheckRowFiles(pipe, "train").ok());  // before the writer comes: it opens nothing
  std::thread writer([&pipe] {
    std::ofstream out(pipe);
    for (int i = 0; i < 5000; ++i) out << "{\"question\": \"a\", \"answer\": \"" << i << "\"}\n";
  });
  const auto data = LoadChat(pipe);
  writer.join();
  INFO(data.status());
  REQUIRE(data.ok());
  CHECK(data->tokens->size() == 5000);
}

}  // namespace
}  // namespace distill
