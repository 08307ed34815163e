#include "libdistill/text/chat_template.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// The 256 bytes, and the special tokens of both built-in templates.
Tokenizer MakeTokenizer(const std::string& config = "") {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(byte)), &token);
    if (token == "\"" || token == "\\") token = "\\" + token;
    absl::StrAppend(&vocab, byte == 0 ? "" : ", ", "\"", token, "\": ", byte);
  }
  std::string added;
  int id = 256;
  for (const char* token :
       {"<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}) {
    absl::StrAppend(&added, added.empty() ? "" : ", ", "{\"id\": ", id++, ", \"special\": true, \"content\": \"", token,
                    "\"}");
  }
  return Tokenizer::Parse(
             {absl::StrCat("{\"added_tokens\": [", added,
                           "], \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
                           "\"add_prefix_space\": false}, \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": "
                           "{\"type\": \"BPE\", \"vocab\": {",
                           vocab, "}, \"merges\": []}}"),
              config},
             "tokenizer.json")
      .value();
}

const std::vector<ChatMessage> kMessages = {
    {"system", "S"}, {"user", "Hi"}, {"assistant", " Hello\n"}, {"user", "Bye"}, {"assistant", "B"}};

std::vector<std::string> Answers(const ChatTemplate::Rendered& rendered) {
  std::vector<std::string> answers;
  for (const auto& [begin, end] : rendered.assistant) answers.push_back(rendered.text.substr(begin, end - begin));
  return answers;
}

}  // namespace

TEST_CASE("ChatML renders turns, and takes the loss on content and end-of-turn token") {
  const Tokenizer tokenizer = MakeTokenizer();
  const auto chat_template = ChatTemplate::Create("chatml", tokenizer);
  REQUIRE(chat_template.ok());
  const auto rendered = chat_template->RenderForTraining(kMessages);
  REQUIRE(rendered.ok());
  CHECK(rendered->text ==
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n Hello\n<|im_end|>\n"
        "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n");
  CHECK(Answers(*rendered) == std::vector<std::string>{" Hello\n<|im_end|>", "B<|im_end|>"});
  CHECK(*chat_template->Render({kMessages[1]}, true) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  CHECK(*chat_template->Render({kMessages[1]}, false) == "<|im_start|>user\nHi<|im_end|>\n");
}

TEST_CASE("Llama 3 renders turns, and takes the loss on content and end-of-turn token") {
  const Tokenizer tokenizer = MakeTokenizer();
  const auto chat_template = ChatTemplate::Create("llama3", tokenizer);
  REQUIRE(chat_template.ok());
  const auto rendered = chat_template->RenderForTraining({kMessages[1], kMessages[2]});
  REQUIRE(rendered.ok());
  CHECK(rendered->text ==
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant"
        "<|end_header_id|>\n\nHello<|eot_id|>");
  CHECK(Answers(*rendered) == std::vector<std::string>{"Hello<|eot_id|>"});
  CHECK(absl::EndsWith(*chat_template->Render(kMessages, true), "<|start_header_id|>assistant<|end_header_id|>\n\n"));
}

TEST_CASE("the encoded conversation marks exactly the assistant's tokens") {
  const Tokenizer tokenizer = MakeTokenizer();
  const auto chat_template = ChatTemplate::Create("chatml", tokenizer);
  const auto rendered = chat_template->RenderForTraining(kMessages);
  const EncodedChat encoded = EncodeChat(tokenizer, *rendered).value();
  REQUIRE(encoded.ids.size() == encoded.is_assistant.size());
  CHECK(tokenizer.Decode(encoded.ids) == rendered->text);
  std::vector<int32_t> targets;
  for (size_t i = 0; i < encoded.ids.size(); ++i) {
    if (encoded.is_assistant[i] != 0) targets.push_back(encoded.ids[i]);
  }
  CHECK(tokenizer.Decode(targets) == " Hello\n<|im_end|>B<|im_end|>");
}

TEST_CASE("a template without generation blocks tells the assistant's part by its prefixes") {
  const Tokenizer tokenizer = MakeTokenizer();
  const auto chat_template = ChatTemplate::Create(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      tokenizer);
  REQUIRE(chat_template.ok());
  const auto rendered = chat_template->RenderForTraining(kMessages);
  REQUIRE(rendered.ok());
  CHECK(Answers(*rendered) == std::vector<std::string>{" Hello\n<end>", "B<end>"});
}

TEST_CASE("a template that renders a turn differently later on is refused for training") {
  const Tokenizer tokenizer = MakeTokenizer();
  const auto chat_template = ChatTemplate::Create(
      "{% for m in messages %}<{{ m.role }}>{{ m.content if loop.last else '...' }}{% endfor %}", tokenizer);
  REQUIRE(chat_template.ok());
  const absl::Status status = chat_template->RenderForTraining(kMessages).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), "message 3 renders differently"));
}

TEST_CASE("the option chooses: the tokenizer's own template, a built-in one, a text or a file") {
  const std::string own = R"({"chat_template": "own {{ bos_token }}{{ eos_token is defined }}", "bos_token": "<b>"})";
  const Tokenizer tokenizer = MakeTokenizer(own);
  CHECK(*ChatTemplate::Create("", tokenizer)->Render({}, false) == "own <b>False");
  CHECK(*ChatTemplate::Create("auto", tokenizer)->Render({}, false) == "own <b>False");
  CHECK(*ChatTemplate::Create("auto", MakeTokenizer())->Render({}, true) == "<|im_start|>assistant\n");
  CHECK(*ChatTemplate::Create("{{ messages | length }}", tokenizer)->Render({}, false) == "0");
  const std::filesystem::path file = std::filesystem::path(DISTILL_BUILD_DIR) / "text_template.jinja";
  std::ofstream(file) << "from a file\n";
  CHECK(*ChatTemplate::Create(file.string(), tokenizer)->Render({}, false) == "from a file");
  std::ofstream(file) << "{% if %}";
  const absl::Status broken = ChatTemplate::Create(file.string(), tokenizer).status();
  CHECK(broken.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(broken.message(), "text_template.jinja: line 1"));
  std::filesystem::remove(file);
  const absl::Status missing = ChatTemplate::Create("chatlm", tokenizer).status();
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(missing.message(), "neither auto, chatml nor llama3"));
}

}  // namespace distill
