#include <string>

#include "absl/strings/match.h"
#include "tests/data/chat_files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

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
      {R"({"messages":[{"role":"user")", "; complete or remove the line"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "not valid UTF-8; convert the file"},
      {"[1, 2]", "the row is not a JSON object; JSON Lines has one conversation a line, {\"messages\": [{"},
      {R"({"story":"hello"})", "the row has neither 'messages' nor 'conversations', nor one question and its answer"},
      {R"({"messages":"hello"})", "'messages' is no list; it holds the messages of one conversation, {"},
      {R"({"messages":["hello"]})",
       "messages[0]: not a JSON object; a message is {\"role\": \"user\", \"content\": \"...\"}"},
      {R"({"messages":[{"content":"a"}]})", "messages[0]: the field 'role' is missing"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"assistant"}]})",
       "messages[1]: the field 'content' is missing; a message has 'role' and 'content' in 'messages', 'from' and"},
      {R"({"conversations":[{"value":"a"}]})", "conversations[0]: the field 'from' is missing"},
      {R"({"conversations":[{"role":"user","text":"a"}]})", "conversations[0]: the field 'content' is missing"},
      {R"({"messages":[{"role":"assistant","content":"a","weight":0.5}]})",
       "messages[0]: 'weight' is neither 0 nor 1; other weights are not supported"},
      {R"({"messages":[{"role":"assistant","content":"a","weight":0}]})", "no answer; each row needs"},
      {R"({"conversations":[{"from":"human"}]})", "conversations[0]: the field 'value' is missing"},
      {R"({"messages":[{"role":"wizard","content":"a"}]})",
       "messages[0]: unknown role 'wizard'; name it one of system, user"},
      {R"({"messages":[{"role":7,"content":"a"}]})",
       "messages[0]: 'role' is not a string; write the text itself, in quotes"},
      {R"({"messages":[{"role":"user","content":["a"]}]})",
       "messages[0]: 'content' has a part that is no {\"type\": \"text\", \"text\": \"...\"}; only texts are "
       "supported"},
      {R"({"conversations":[{"from":"human","value":null}]})",
       "conversations[0]: 'value' is null, not a string; write the text, or leave the message out"},
      {R"({"messages":[{"role":"user","content":[{"type":"image","url":"a"}]}]})", "'content' has a part that is no"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null}]})",
       "no answer; each row needs"},
      {R"({"tools":{"name":"f"},"messages":[]})", "'tools' is no list; it holds one description a tool"},
      {R"({"tools":"[{","messages":[]})", "'tools' is a text that should be JSON: not valid JSON"},
      {R"({"chat_template_kwargs":7,"messages":[]})", "'chat_template_kwargs' is no object of variables"},
      {R"({"messages":)" + std::string(70, '[') + std::string(70, ']') + "}",
       "nested more than 64 levels deep; flatten or remove the line"},
  };
  const TempFolder files;
  for (const Case& bad : cases) {
    const std::string path = files.Write("bad.jsonl", ChatRow("a", "b") + "\n" + bad.row + "\n" + ChatRow("c", "d"));
    CheckError(LoadChat(path).status(), absl::StatusCode::kInvalidArgument, path + ":3: ", bad.what);
  }
}

TEST_CASE("a template's own objection names the row") {
  const TempFolder files;
  const std::string path = files.Write("c.jsonl", ChatRow("a", "b") + ChatRow("stop", "b"));
  const std::string picky =
      "{% for m in messages %}{% if m['content'] == 'stop' %}{{ raise_exception('no stopping') }}{% endif %}"
      "{% generation %}{{ m['content'] }}{% endgeneration %}{% endfor %}";
  CheckError(LoadChat(path, {}, picky).status(), absl::StatusCode::kInvalidArgument,
             path + ":2: ", "no stopping; change the messages, or choose another chat_template");
}

TEST_CASE("a template that leaves the answer out is refused at the first row") {
  const TempFolder files;
  const std::string path = files.Write("c.jsonl", ChatRow("a", "b"));
  CheckError(LoadChat(path, {}, "{{ 'always the same' }}").status(), absl::StatusCode::kInvalidArgument,
             path + ":1: ", "renders none of the answer; set chat_template to one that does");
  CheckError(LoadChat(path, {}, "{% for m in messages %}{{ m.role }}\n{% endfor %}").status(),
             absl::StatusCode::kInvalidArgument, path + ":1: ", "renders none of the answer");
}

TEST_CASE("an empty data set is refused by its path") {
  const TempFolder files;
  for (const std::string contents : {"", "\n\n"}) {
    const std::string path = files.Write("empty.jsonl", contents);
    CheckError(LoadChat(path).status(), absl::StatusCode::kInvalidArgument, path,
               "is empty; write one conversation a line, or name another file");
  }
  CheckError(LoadChat(files.path()).status(), absl::StatusCode::kInvalidArgument, files.path(), "is empty; write one");
}

TEST_CASE("rows without an answer are bad rows, counted and named by line") {
  const TempFolder files;
  std::string rows = ChatRow("a", "b");
  rows += R"({"messages":[{"role":"user","content":"hello?"}]})"
          "\n\n";
  rows += R"({"conversations":[]})"
          "\n";
  rows += ChatRow("c", " ");
  rows += R"({"messages":[{"role":"user","content":"d"},{"role":"assistant","content":null}]})"
          "\n";
  const std::string path = files.Write("train.jsonl", rows);
  const absl::Status refused = LoadChat(path).status();
  for (const int line : {2, 4, 5, 6}) {
    CheckError(refused, absl::StatusCode::kInvalidArgument, path + " has 4 bad rows among 5: ",
               absl::StrCat("\n  ", path, ":", line, ": no answer; each row needs an assistant's message"));
  }
}

TEST_CASE("a data set of which max_length leaves no answer is refused with its count") {
  const TempFolder files;
  const std::string path = files.Write("c.jsonl", ChatRow("a", "b"));
  CheckError(LoadChat(path, {.max_length = 10}).status(), absl::StatusCode::kInvalidArgument, path,
             "nothing is left to train on: rows 1, used 0, cut before the answer 1 (first: c.jsonl:1); raise "
             "max_length, which is 10");
}

TEST_CASE("a JSON file that is no JSON Lines is told apart") {
  const TempFolder files;
  const std::string row = ChatRow("a", "b");
  CheckError(LoadChat(files.Write("chat.json", "[\n" + row + "]\n")).status(), absl::StatusCode::kInvalidArgument,
             "chat.json is one JSON array", "python3 -c");
  CheckError(LoadChat(files.Write("chat.json", "{\n\"messages\": []\n}\n")).status(),
             absl::StatusCode::kInvalidArgument, "chat.json:1: ", "each value on a line of its own");
  CheckError(LoadChat(files.Write("chat.json", "[" + row.substr(0, row.size() - 1) + "]")).status(),
             absl::StatusCode::kInvalidArgument, "chat.json is one JSON array", "data are JSON Lines");
}

TEST_CASE("missing files, splits and remote paths are refused by name") {
  const TempFolder files;
  CheckError(LoadChat(files.path() + "/none.jsonl").status(), absl::StatusCode::kNotFound, "none.jsonl",
             "; check the path");
  CheckError(LoadChat(files.path()).status(), absl::StatusCode::kNotFound, files.path(), "holds no files");
  files.Write("valid.jsonl", ChatRow("a", "b"));
  files.Write("notes.txt", "x");
  CheckError(LoadChat(files.path(), {.split = "train"}).status(), absl::StatusCode::kNotFound, "train*.jsonl",
             "holds notes.txt, valid.jsonl: name the split that a file's name begins with, or the file itself");
  CheckError(LoadChat("gs://bucket/chat.jsonl").status(), absl::StatusCode::kInvalidArgument, "gs://bucket/chat.jsonl",
             "not supported");
}

TEST_CASE("options out of range are refused by name") {
  const TempFolder files;
  const std::string path = files.Write("c.jsonl", ChatRow("a", "b"));
  CheckError(LoadChat(path, {.num_samples = -1}).status(), absl::StatusCode::kInvalidArgument, "num_samples", "-1");
  CheckError(LoadChat(path, {.max_length = 1}).status(), absl::StatusCode::kInvalidArgument, "max_length", "1");
}

}  // namespace
}  // namespace distill
