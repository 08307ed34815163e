#include "libdistill/text/chat_template.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"
#include "tests/text/chat_tokenizer.h"

namespace distill {
namespace {

// With the special tokens of both built-in templates.
Tokenizer MakeTokenizer(const std::string& config = "") {
  return MakeChatTokenizer(
      {"<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
      config);
}

const Conversation kConversation = {
    {{"system", "S"}, {"user", "Hi"}, {"assistant", " Hello\n"}, {"user", "Bye"}, {"assistant", "B"}}};

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
  const auto rendered = chat_template->RenderForTraining(kConversation);
  REQUIRE(rendered.ok());
  CHECK(rendered->text ==
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n Hello\n<|im_end|>\n"
        "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n");
  CHECK(Answers(*rendered) == std::vector<std::string>{" Hello\n<|im_end|>", "B<|im_end|>"});
  CHECK(*chat_template->Render({{{"user", "Hi"}}}, true) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  CHECK(*chat_template->Render({{{"user", "Hi"}}}, false) == "<|im_start|>user\nHi<|im_end|>\n");
}

TEST_CASE("Llama 3 renders turns, and takes the loss on content and end-of-turn token") {
  const Tokenizer tokenizer = MakeTokenizer();
  const auto chat_template = ChatTemplate::Create("llama3", tokenizer);
  REQUIRE(chat_template.ok());
  const auto rendered = chat_template->RenderForTraining({{{"user", "Hi"}, {"assistant", " Hello\n"}}});
  REQUIRE(rendered.ok());
  CHECK(rendered->text ==
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant"
        "<|end_header_id|>\n\nHello<|eot_id|>");
  CHECK(Answers(*rendered) == std::vector<std::string>{"Hello<|eot_id|>"});
  CHECK(
      absl::EndsWith(*chat_template->Render(kConversation, true), "<|start_header_id|>assistant<|end_header_id|>\n\n"));
}

TEST_CASE("the encoded conversation marks exactly the assistant's tokens") {
  const Tokenizer tokenizer = MakeTokenizer();
  const auto chat_template = ChatTemplate::Create("chatml", tokenizer);
  const auto rendered = chat_template->RenderForTraining(kConversation);
  const EncodedChat encoded = EncodeChat(tokenizer, *rendered).value();
  REQUIRE(encoded.ids.size() == encoded.is_assistant.size());
  CHECK(tokenizer.Decode(encoded.ids) == rendered->text);
  std::vector<int32_t> targets;
  for (size_t i = 0; i < encoded.ids.size(); ++i) {
    if (encoded.is_assistant[i] != 0) targets.push_back(encoded.ids[i]);
  }
  CHECK(tokenizer.Decode(targets) == " Hello\n<|im_end|>B<|im_end|>");
}

// Of a template's text.
absl::StatusOr<ChatTemplate::Rendered> RenderWith(const std::string& text, const Conversation& conversation,
                                                  TrainOn train_on = TrainOn::kAll) {
  const Tokenizer tokenizer = MakeTokenizer();
  const auto chat_template = ChatTemplate::Create(text, tokenizer);
  REQUIRE(chat_template.ok());
  return chat_template->RenderForTraining(conversation, train_on);
}

TEST_CASE("without generation blocks, an answer is what differs with it, and what ends every turn") {
  const auto rendered = RenderWith(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}",
      kConversation);
  REQUIRE(rendered.ok());
  CHECK(Answers(*rendered) == std::vector<std::string>{" Hello\n<end>", "B<end>"});
  CHECK(rendered->rewritten == 0);
  CHECK(rendered->without_end == 0);
}

TEST_CASE("what a template writes behind the generation prompt is trained, and not what it writes in it") {
  const char* kThinking =
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}<think></think>{% endif %}{{ m.content }}"
      "<|im_end|>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const std::vector<std::string> thoughts = {"<think></think> Hello\n<|im_end|>", "<think></think>B<|im_end|>"};
  CHECK(Answers(RenderWith(kThinking, kConversation).value()) == thoughts);
  // The prompt begins a thought that the answers do not have (DeepSeek-R1's).
  const char* kPrompted =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<assistant><think>\n{% endif %}";
  CHECK(Answers(RenderWith(kPrompted, kConversation).value()) ==
        std::vector<std::string>{" Hello\n<|im_end|>", "B<|im_end|>"});
}

TEST_CASE("a turn that ends otherwise within a conversation and at its end has the special token behind it") {
  const auto rendered = RenderWith(
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
      "{{ '<|eot_id|>' if loop.last else '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif "
      "%}",
      kConversation);
  CHECK(Answers(rendered.value()) == std::vector<std::string>{" Hello\n<|im_end|>", "B<|eot_id|>"});
  // The marker of the next turn is what stops a model; it comes behind the last answer too (GLM-4's).
  const auto next = RenderWith(
      "{% for m in messages %}{{ '<|im_start|>' if m.role == 'user' else '<|im_end|>' }}{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|im_end|>{% endif %}",
      kConversation);
  CHECK(Answers(next.value()) == std::vector<std::string>{" Hello\n<|im_start|>", "B<|im_start|>"});
  CHECK(next->added_end == "<|im_start|>");
  CHECK(next->without_end == 0);
}

TEST_CASE("an answer that no special token ends is counted") {
  const auto rendered = RenderWith(
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% "
      "endif %}",
      kConversation);
  CHECK(Answers(rendered.value()) == std::vector<std::string>{" Hello\n", "B"});
  CHECK(rendered->without_end == 2);
  CHECK(rendered->added_end.empty());
}

TEST_CASE("answers that a template leaves out or rewrites later on are context alone, and counted") {
  const auto dropped = RenderWith(
      "{% for m in messages %}<{{ m.role }}>{{ m.content if loop.last else '...' }}{% endfor %}", kConversation);
  CHECK(Answers(dropped.value()) == std::vector<std::string>{"B"});
  CHECK(dropped->rewritten == 1);
  const auto rewritten = RenderWith(
      "{% for m in messages %}<{{ m.role }}>{{ '<think></think>' if loop.last and m.role == 'assistant' }}{{ m.content "
      "}}"
      "<|im_end|>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
      kConversation);
  CHECK(Answers(rewritten.value()) == std::vector<std::string>{"<think></think>B<|im_end|>"});
  CHECK(rewritten->rewritten == 1);
}

TEST_CASE("the last answer alone is trained where train_on says so, and none of weight 0") {
  const char* kPlain =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}";
  for (const char* choice : {"chatml", kPlain}) {
    INFO(choice);
    CHECK(Answers(RenderWith(choice, kConversation, TrainOn::kLast).value()) ==
          std::vector<std::string>{"B<|im_end|>"});
    Conversation weighted = kConversation;
    weighted.messages.back().has_loss = false;
    CHECK(Answers(RenderWith(choice, weighted).value()) == std::vector<std::string>{" Hello\n<|im_end|>"});
    CHECK(RenderWith(choice, weighted, TrainOn::kLast)->assistant.empty());
  }
  // A message may have several blocks: they are told apart by where the answers lie.
  const char* kTwoBlocks =
      "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% "
      "endgeneration %}"
      "/{% generation %}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}";
  CHECK(Answers(RenderWith(kTwoBlocks, kConversation).value()).size() == 4);
  CHECK(Answers(RenderWith(kTwoBlocks, kConversation, TrainOn::kLast).value()) ==
        std::vector<std::string>{"B", "<|im_end|>"});
}

TEST_CASE("fields of messages and conversations are variables of the template, with their types") {
  const auto json = [](const char* text) { return ParseJson(text).value(); };
  Conversation conversation{{{"user", "Hi"}, {"assistant", ""}},
                            {{"tools", json(R"([{"name": "f", "most": 3, "least": 0.5}])")}, {"style", json("\"s\"")}}};
  conversation.messages[1].fields = {
      {"content", JsonValue()},
      {"tool_calls", json(R"([{"function": {"name": "f", "arguments": {"a": [1, true]}}}])")}};
  const auto rendered = RenderWith(
      "{{ tools | tojson }} {{ style }} {% for m in messages %}<{{ m.role }}>{% if m.content is none %}"
      "{% for call in m.tool_calls %}{{ call.function.name }}({{ call.function.arguments | tojson }}){% endfor %}"
      "{% else %}{{ m.content }}{% endif %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
      conversation);
  REQUIRE(rendered.ok());
  CHECK(rendered->text ==
        R"([{"name": "f", "most": 3, "least": 0.5}] s <user>Hi<|im_end|><assistant>f({"a": [1, true]})<|im_end|>)");
  CHECK(Answers(*rendered) == std::vector<std::string>{R"(f({"a": [1, true]})<|im_end|>)"});
}

TEST_CASE("ids are those of the whole text, and a token that an answer shares is trained") {
  const Tokenizer tokenizer = MakeTokenizer();
  const EncodedChat encoded = EncodeChat(tokenizer, {.text = "aéb", .assistant = {{2, 4}}}).value();
  CHECK(encoded.ids == tokenizer.Encode("aéb").value());
  CHECK(encoded.is_assistant == std::vector<uint8_t>{0, 1, 1, 1});
}

TEST_CASE("the option chooses: the tokenizer's own template, a built-in one, a text or a file") {
  const std::string own = R"({"chat_template": "own {{ bos_token }}{{ eos_token is defined }}", "bos_token": "<b>"})";
  const Tokenizer tokenizer = MakeTokenizer(own);
  CHECK(*ChatTemplate::Create("", tokenizer)->Render({}, false) == "own <b>False");
  CHECK(*ChatTemplate::Create("auto", tokenizer)->Render({}, false) == "own <b>False");
  CHECK(*ChatTemplate::Create("auto", MakeTokenizer())->Render({}, true) == "<|im_start|>assistant\n");
  CHECK(*ChatTemplate::Create("{{ messages | length }}", tokenizer)->Render({}, false) == "0");
  const std::filesystem::path file = std::filesystem::path(BuildFolder()) / "text_template.jinja";
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
