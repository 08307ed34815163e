// Bytes as a chat template, rendered with a conversation that has most of what templates look at.
#include "libdistill/text/chat_template.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace {

const distill::Tokenizer& BareTokenizer() {
  static const auto* const tokenizer = new distill::Tokenizer(
      distill::Tokenizer::Parse(
          {R"({"model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {"<unk>": 0, "<|end|>": 1, "a": 2}},
               "added_tokens": [{"id": 1, "content": "<|end|>", "special": true}], "pre_tokenizer": {"type": "Whitespace"}})",
           R"({"bos_token": "<|end|>", "eos_token": "<|end|>"})"},
          "tokenizer.json")
          .value());
  return *tokenizer;
}

const distill::Conversation& Talk() {
  static const auto* const conversation = [] {
    auto* talk = new distill::Conversation{
        {{"system", "S"}, {"user", "  Hi\n"}, {"assistant", "<think>hm</think>b"}, {"user", "c"}, {"assistant", ""}}};
    talk->messages[4].fields = {
        {"tool_calls",
         distill::ParseJson(R"([{"function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}])").value()}};
    talk->fields = {{"tools", distill::ParseJson(R"([{"type": "function", "function": {"name": "f"}}])").value()}};
    return talk;
  }();
  return *conversation;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The mark makes every text one of a template, not the name of a file.
  const std::string text = "{{''}}" + std::string(reinterpret_cast<const char*>(data), size);
  const auto chat_template = distill::ChatTemplate::Create(text, BareTokenizer());
  if (!chat_template.ok()) return 0;
  if (const auto rendered = chat_template->RenderForTraining(Talk()); rendered.ok()) {
    if (rendered->text.size() < 10000) distill::EncodeChat(BareTokenizer(), *rendered).IgnoreError();
  }
  return 0;
}
