#include <string>

#include "absl/strings/match.h"
#include "tests/data/chat_files.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// The whole message: what of it is expected depends on the case.
void CheckError(const absl::Status& status, absl::StatusCode code, const std::string& where, const std::string& what) {
  INFO(status.ToString());
  CHECK(status.code() == code);
  CHECK(absl::StrContains(status.message(), where));
  CHECK(absl::StrContains(status.message(), what));
}

TEST_CASE("a bad row is refused with its file and line") {
  struct Case {
    std::string row;
    std::string what;
  };
  const Case cases[] = {
      {R"({"messages":[{"role":"user")", "not valid JSON"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "not valid UTF-8"},
      {"[1, 2]", "the row is not a JSON object"},
      {R"({"text":"hello"})", "the row has neither 'messages' nor 'conversations'"},
      {R"({"messages":"hello"})", "'messages' is no list"},
      {R"({"messages":["hello"]})", "messages[0]: not a JSON object"},
      {R"({"messages":[{"content":"a"}]})", "messages[0]: the field 'role' is missing"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"assistant"}]})",
       "messages[1]: the field 'content' is missing"},
      {R"({"conversations":[{"role":"user","content":"a"}]})", "conversations[0]: the field 'from' is missing"},
      {R"({"conversations":[{"from":"human"}]})", "conversations[0]: the field 'value' is missing"},
      {R"({"messages":[{"role":"wizard","content":"a"}]})", "messages[0]: unknown role 'wizard'; known: system, user"},
      {R"({"messages":[{"role":7,"content":"a"}]})", "messages[0]: 'role' is no string"},
      {R"({"messages":[{"role":"user","content":["a"]}]})", "messages[0]: 'content' is no string"},
      {R"({"conversations":[{"from":"gpt","value":null}]})", "conversations[0]: 'value' is no string"},
  };
  const ChatFiles files;
  for (const Case& bad : cases) {
    const std::string path = files.Write("bad.jsonl", ChatRow("a", "b") + "\n" + bad.row + "\n" + ChatRow("c", "d"));
    CheckError(LoadChat(path).status(), absl::StatusCode::kInvalidArgument, path + ":3: ", bad.what);
  }
}

TEST_CASE("a template's own objection names the row") {
  const ChatFiles files;
  const std::string path = files.Write("c.jsonl", ChatRow("a", "b") + ChatRow("stop", "b"));
  const std::string picky =
      "{% for m in messages %}{% if m['content'] == 'stop' %}{{ raise_exception('no stopping') }}{% endif %}"
      "{% generation %}{{ m['content'] }}{% endgeneration %}{% endfor %}";
  CheckError(LoadChat(path, {}, picky).status(), absl::StatusCode::kInvalidArgument, path + ":2: ", "no stopping");
}

TEST_CASE("a template that leaves the answer out is refused at the first row") {
  const ChatFiles files;
  const std::string path = files.Write("c.jsonl", ChatRow("a", "b"));
  CheckError(LoadChat(path, {}, "{{ 'always the same' }}").status(), absl::StatusCode::kInvalidArgument,
             path + ":1: ", "renders none of the answer");
}

TEST_CASE("an empty data set is refused by its path") {
  const ChatFiles files;
  for (const std::string contents : {"", "\n\n"}) {
    const std::string path = files.Write("empty.jsonl", contents);
    CheckError(LoadChat(path).status(), absl::StatusCode::kInvalidArgument, path, "is empty");
  }
  CheckError(LoadChat(files.folder()).status(), absl::StatusCode::kInvalidArgument, files.folder(), "is empty");
}

TEST_CASE("a data set without any answer is refused with its count") {
  const ChatFiles files;
  const std::string path = files.Write("c.jsonl", R"({"messages":[{"role":"user","content":"hello?"}]})"
                                                  "\n");
  CheckError(LoadChat(path).status(), absl::StatusCode::kInvalidArgument, path,
             "nothing is left to train on: rows 1, used 0, without an answer 1 (first: c.jsonl:1)");
}

TEST_CASE("missing files, splits and remote paths are refused by name") {
  const ChatFiles files;
  CheckError(LoadChat(files.folder() + "/none.jsonl").status(), absl::StatusCode::kNotFound, "none.jsonl", "no such");
  CheckError(LoadChat(files.folder()).status(), absl::StatusCode::kNotFound, files.folder(), "holds no files");
  files.Write("valid.jsonl", ChatRow("a", "b"));
  files.Write("notes.txt", "x");
  CheckError(LoadChat(files.folder(), {.split = "train"}).status(), absl::StatusCode::kNotFound, "train*.jsonl",
             "holds notes.txt, valid.jsonl");
  CheckError(LoadChat("s3://bucket/chat.jsonl").status(), absl::StatusCode::kInvalidArgument, "s3://bucket/chat.jsonl",
             "not supported");
}

TEST_CASE("options out of range are refused by name") {
  const ChatFiles files;
  const std::string path = files.Write("c.jsonl", ChatRow("a", "b"));
  CheckError(LoadChat(path, {.num_samples = -1}).status(), absl::StatusCode::kInvalidArgument, "num_samples", "-1");
  CheckError(LoadChat(path, {.max_length = 1}).status(), absl::StatusCode::kInvalidArgument, "max_length", "1");
}

}  // namespace
}  // namespace distill
