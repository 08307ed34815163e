#include <algorithm>
#include <string>
#include <vector>

#include "libdistill/data/batches.h"
#include "libdistill/data/collate.h"
#include "libdistill/data/token_batch.h"
#include "tests/data/chat_files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

// One conversation of two answers in both forms.
constexpr char kMessages[] = R"({"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"},)"
                             R"({"role":"assistant","content":"Hello\nyou"},{"role":"user","content":"Bye"},)"
                             R"({"role":"assistant","content":"Ciao é"}]})";
constexpr char kConversations[] =
    R"({"source":"x","conversations":[{"from":"system","value":"Be kind."},{"from":"human","value":"Hi"},)"
    R"({"from":"gpt","value":"Hello\nyou"},{"from":"human","value":"Bye"},)"
    R"({"from":"gpt","value":"Ciao é"}]})";

// The text with what the loss is taken on between [[ and ]].
std::string Marked(const TokenSample& sample) {
  const Tokenizer tokenizer = ByteTokenizer();
  REQUIRE(sample.ids.size() == sample.is_target.size());
  std::string text;
  for (size_t i = 0; i < sample.ids.size();) {
    size_t end = i + 1;
    while (end < sample.ids.size() && sample.is_target[end] == sample.is_target[i]) ++end;
    const std::string part = tokenizer.Decode(absl::MakeConstSpan(sample.ids).subspan(i, end - i));
    text += sample.is_target[i] ? "[[" + part + "]]" : part;
    i = end;
  }
  return text;
}

std::string LoadMarked(const std::string& row, const std::string& chat_template) {
  const TempFolder files;
  const auto data = LoadChat(files.Write("chat.jsonl", row + "\n"), {}, chat_template);
  INFO(data.status().ToString());
  REQUIRE(data.ok());
  REQUIRE(data->tokens->size() == 1);
  return Marked(TokensOf(*data->tokens, 0));
}

TEST_CASE("the loss is on each answer and its end of turn, not on the newline after: ChatML") {
  for (const std::string row : {kMessages, kConversations}) {
    CHECK(LoadMarked(row, "chatml") ==
          "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
          "<|im_start|>assistant\n[[Hello\nyou<|im_end|>]]\n<|im_start|>user\nBye<|im_end|>\n"
          "<|im_start|>assistant\n[[Ciao é<|im_end|>]]\n");
  }
}

TEST_CASE("the loss is on each answer and its end of turn: Llama 3") {
  for (const std::string row : {kMessages, kConversations}) {
    CHECK(LoadMarked(row, "llama3") ==
          "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
          "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\n[[Hello\nyou<|eot_id|>]]"
          "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\n[[Ciao é<|eot_id|>]]");
  }
}

TEST_CASE("a template without a generation mark puts the loss on the same tokens") {
  const std::string plain =
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
      "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  CHECK(LoadMarked(kMessages, plain) == LoadMarked(kMessages, "chatml"));
}

TEST_CASE("conversations may have role and content, and answers of weight 0 have no loss") {
  const std::string row =
      R"({"conversations":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello","weight":0},)"
      R"({"role":"user","content":"Bye"},{"role":"assistant","content":"Ciao","weight":1}]})";
  const std::string wanted = "<user>Hi|<assistant>Hello|<user>Bye|<assistant>[[Ciao|]]";
  CHECK(LoadMarked(row,
                   "{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}"
                   "{% if add_generation_prompt %}<assistant>{% endif %}") == wanted);
  CHECK(LoadMarked(row,
                   "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}"
                   "{{ m.content }}|{% endgeneration %}{% else %}{{ m.content }}|{% endif %}{% endfor %}") == wanted);
}

// As Qwen2.5's, which looks at the first message before there is one.
TEST_CASE("a conversation may begin with the assistant where the template asks what the first message is") {
  const std::string row = R"({"messages":[{"role":"assistant","content":"system"},{"role":"user","content":"Hi"},)"
                          R"({"role":"assistant","content":"b"}]})";
  CHECK(LoadMarked(row,
                   "{% if messages[0].role != 'system' %}<system>the default|{% endif %}"
                   "{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}"
                   "{% if add_generation_prompt %}<assistant>{% endif %}") ==
        "<system>the default|<assistant>[[system|]]<user>Hi|<assistant>[[b|]]");
}

TEST_CASE("fields that nothing reads are named once, in the summary") {
  const TempFolder files;
  const std::string row =
      R"({"id":7,"messages":[{"role":"user","content":"a","name":"Ada"},{"role":"assistant","content":"b","weight":1}]})"
      "\n";
  const auto data = LoadChat(files.Write("chat.jsonl", row + row));
  REQUIRE(data.ok());
  CHECK(data->summary == "rows 2, used 2; fields that are not read: 'id', 'name' of messages");
}

TEST_CASE("tools, calls of them, reasoning and variables reach the template; what it does not name is not read") {
  const TempFolder files;
  const std::string row =
      R"({"tools":"[{\"name\":\"f\"}]","chat_template_kwargs":{"style":"brief"},"messages":[)"
      R"({"role":"developer","content":[{"type":"text","text":"D"},{"type":"text","text":"E"}]},)"
      R"({"role":"user","content":"a","mood":"fine"},{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]},)"
      R"({"role":"tool","content":"7"},{"role":"assistant","content":"b","reasoning_content":"hm"}]})";
  const std::string path = files.Write("chat.jsonl", row + "\n");
  const std::string chat_template =
      "{{ tools[0].name }} {{ style }} {% for m in messages %}<{{ m.role }}>"
      "{% if m.tool_calls %}call {{ m.tool_calls[0].function.name }}{% elif m.content is string %}"
      "{{ m.reasoning_content }}{{ m.content }}{% else %}{{ m.content[1].text }}{% endif %}|{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  CHECK(LoadMarked(row, chat_template) ==
        "f brief <developer>E|<user>a|<assistant>[[call f|]]<tool>7|<assistant>[[hmb|]]");
  CHECK(LoadChat(path, {}, chat_template)->summary == "rows 1, used 1; fields that are not read: 'mood' of messages");
  CHECK(LoadChat(path, {.train_on = TrainOn::kLast}, chat_template).ok());
}

TEST_CASE("the summary counts the rows whose answers are not all trained") {
  const TempFolder files;
  const std::string path = files.Write("chat.jsonl", std::string(kConversations) + "\n" + ChatRow("a", "b"));
  const auto data = LoadChat(path, {},
                             "{% for m in messages %}<{{ m.role }}>{{ m.content if loop.last else '.' }}{% endfor %}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}");
  REQUIRE(data.ok());
  CHECK(
      data->summary ==
      "rows 2, used 2, with answers that are context alone, since the chat template leaves them or their reasoning out "
      "of what follows 1 (first: chat.jsonl:1), with answers that the chat template does not end: the student will not "
      "learn to stop 2 (first: chat.jsonl:1, chat.jsonl:2); fields that are not read: 'source'");
}

TEST_CASE("the summary counts the rows whose reasoning the template leaves out") {
  const TempFolder files;
  const std::string path = files.Write(
      "chat.jsonl", ChatRow("a", "<think>hm, well</think>b") + ChatRow("a", "</think>c") + ChatRow("a", "c"));
  const std::string prompt = "{% if add_generation_prompt %}<assistant>{% endif %}";
  const auto left_out = LoadChat(
      path, {},
      "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}<|im_end|>{% endfor %}" + prompt);
  INFO(left_out.status());
  REQUIRE(left_out.ok());
  CHECK(left_out->summary ==
        "rows 3, used 3, with reasoning that the chat template leaves out 1 (first: chat.jsonl:1)");
  const auto kept =
      LoadChat(path, {}, "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|im_end|>{% endfor %}" + prompt);
  REQUIRE(kept.ok());
  CHECK(kept->summary == "rows 3, used 3");
}

TEST_CASE("conversations stay beside their samples as text, with a template's roles") {
  const TempFolder files;
  const auto data = LoadChat(files.Write("chat.jsonl", std::string(kConversations) + "\n" + ChatRow("a", "b")));
  REQUIRE(data.ok());
  REQUIRE(data->conversations.size() == 2);
  REQUIRE(data->conversations[0].messages.size() == 5);
  CHECK(data->conversations[0].messages[1].role == "user");
  CHECK(data->conversations[0].messages[2].role == "assistant");
  CHECK(data->conversations[0].messages[4].content == "Ciao é");
  CHECK(data->conversations[1].messages[1].content == "b");
}

TEST_CASE(
    "a byte order mark, Windows line ends and blank lines change nothing, nor do nulls and empty lists of tools") {
  const TempFolder files;
  const std::string row =
      R"({"messages":[{"role":"user","content":"\u65e5\ud83d\ude42","tool_calls":null},)"
      R"({"role":"assistant","content":"日🙂","tool_calls":[]},{"role":"assistant","content":null}],"tools":null})";
  const auto data = LoadChat(files.Write("c.jsonl", "\xEF\xBB\xBF" + row + "\r\n\r\n\n" + row + "\r\n"));
  INFO(data.status().ToString());
  REQUIRE(data.ok());
  REQUIRE(data->conversations.size() == 2);
  for (const auto& conversation : data->conversations) {
    CHECK(conversation.messages[0].content == "日🙂");
    CHECK(conversation.messages[1].content == "日🙂");
    CHECK(conversation.messages[2].content.empty());
  }
  CHECK(data->summary == "rows 2, used 2");
}

TEST_CASE("a sample longer than max_length is cut at its end, and dropped when no answer is left") {
  const TempFolder files;
  const std::string path = files.Write(
      "c.jsonl", ChatRow("a", "b") + ChatRow("a", std::string(100, 'x')) + ChatRow(std::string(100, 'q'), "b"));
  // <|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n: 9 + 11 tokens before the answer.
  const auto data = LoadChat(path, {.max_length = 30});
  REQUIRE(data.ok());
  REQUIRE(data->tokens->size() == 2);
  CHECK(TokensOf(*data->tokens, 0).ids.size() == 20 + 3);
  const TokenSample cut = TokensOf(*data->tokens, 1);
  CHECK(cut.ids.size() == 30);
  CHECK(std::count(cut.is_target.begin(), cut.is_target.end(), 1) == 10);
  CHECK(data->conversations[1].messages[1].content == std::string(100, 'x'));
  CHECK(data->summary == "rows 3, used 2, cut before the answer 1 (first: c.jsonl:3), cut to max_length 30 1");
}

TEST_CASE("num_samples takes the first rows that can be used") {
  const TempFolder files;
  const std::string path =
      files.Write("c.jsonl", ChatRow("a", "1") + ChatRow("b", "2") + ChatRow("c", "3") + "broken\n");
  const auto data = LoadChat(path, {.num_samples = 2});
  REQUIRE(data.ok());
  REQUIRE(data->tokens->size() == 2);
  CHECK(data->conversations[1].messages[1].content == "2");
  CHECK(data->summary == "rows 2, used 2");
}

TEST_CASE("a folder stands for its .jsonl files in order of name, of one split where it is given") {
  const TempFolder files;
  files.Write("train-2.jsonl", ChatRow("a", "third"));
  files.Write("train-1.jsonl", ChatRow("a", "second"));
  files.Write("test.jsonl", ChatRow("a", "first"));
  files.Write("train.txt", "not read");
  files.Write("train.json", "[not read either");
  const auto answers = [&](const std::string& path, const std::string& split) {
    const auto data = LoadChat(path, {.split = split});
    INFO(data.status().ToString());
    REQUIRE(data.ok());
    std::vector<std::string> texts;
    for (const auto& conversation : data->conversations) texts.push_back(conversation.messages[1].content);
    return texts;
  };
  CHECK(answers(files.path(), "") == std::vector<std::string>{"first", "second", "third"});
  CHECK(answers(files.path(), "train") == std::vector<std::string>{"second", "third"});
  CHECK(answers(files.path() + "/", "test") == std::vector<std::string>{"first"});
  CHECK(answers(files.path() + "/test.jsonl", "train") == std::vector<std::string>{"first"});
}

TEST_CASE("a described batch shows its text and marks what the loss is taken on") {
  const TempFolder files;
  const auto data = LoadChat(files.Write("c.jsonl", ChatRow("a", "b") + ChatRow("Hi", "yes")));
  REQUIRE(data.ok());
  const auto rows = ReadRows(*data->tokens, {{1, 0}});
  REQUIRE(rows.ok());
  CHECK(DescribeBatch(Collate(*rows, 100, 0).value(), ByteTokenizer()) ==
        "1 rows of up to 49 tokens; 49 tokens, 6 of them with loss; samples 1, 0\n"
        "row 0, tokens 0 to 26\n"
        "       | <|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n\n"
        "  loss | yes<|im_end|>\n"
        "       | \\n\n"
        "row 0, tokens 26 to 49\n"
        "       | <|im_start|>user\\na<|im_end|>\\n<|im_start|>assistant\\n\n"
        "  loss | b<|im_end|>\n"
        "       | \\n\n");
}

}  // namespace
}  // namespace distill
