// What is trained of a conversation, beside what TRL's training templates mark (tests/golden/chat_masks_golden.py).
#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/store/files.h"
#include "libdistill/text/chat_template.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"
#include "tests/text/chat_tokenizer.h"
#include "tests/text/golden_rows.h"

namespace distill {
namespace {

const std::string kMasks = GoldenFolder() + "/chat_masks";

// With the special tokens of all families.
Tokenizer MakeTokenizer() {
  std::vector<std::string> special;
  const JsonValue tokens = ParseJson(*ReadFile(kMasks + "/special.json")).value();
  for (const JsonValue& token : tokens.items) special.push_back(token.text);
  return MakeChatTokenizer(special, R"({"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})");
}

Conversation ConversationOf(const JsonValue& variables) {
  Conversation conversation;
  if (const JsonValue* tools = variables.Find("tools"); tools->kind != JsonValue::Kind::kNull) {
    conversation.fields = {{"tools", *tools}};
  }
  for (const JsonValue& json : variables.Find("messages")->items) {
    ChatMessage message;
    for (const auto& [name, value] : json.members) {
      if (name == "role") {
        message.role = value.text;
      } else if (name == "content" && value.kind == JsonValue::Kind::kString) {
        message.content = value.text;
      } else {
        message.fields.emplace_back(name, value);
      }
    }
    conversation.messages.push_back(std::move(message));
  }
  return conversation;
}

// Whether `found` are the marked parts. Where the texts differ, the published template leaves out the reasoning that
// TRL's copy keeps in front of answers. Of answers that are context alone, the parts (two, where calls and words lie
// apart) are marked, and not found.
bool AreMarked(const std::vector<std::string>& found, const std::vector<std::string>& marked, bool same_text,
               int64_t left_out) {
  auto part = found.begin();
  for (const std::string& expected : marked) {
    const bool is_found = part != found.end() && (same_text ? *part == expected : absl::EndsWith(expected, *part));
    if (is_found) {
      ++part;
    } else if (--left_out < 0) {
      return false;
    }
  }
  return part == found.end();
}

int64_t Answers(const JsonValue& messages) {
  return std::count_if(messages.items.begin(), messages.items.end(),
                       [](const JsonValue& message) { return message.Find("role")->text == "assistant"; });
}

// What docs/text.md says of a family.
struct Counted {
  int conversations = 0, refused = 0;
  int64_t trained = 0, rewritten = 0;
  std::string added_end;
};

void Write(const std::map<std::string, Counted>& families) {
  std::ofstream file(kMasks + "/found.jsonl");
  for (const auto& [family, counted] : families) {
    file << "{\"family\": \"" << family << "\", \"conversations\": " << counted.conversations
         << ", \"refused\": " << counted.refused << ", \"trained\": " << counted.trained
         << ", \"rewritten\": " << counted.rewritten << ", \"added_end\": \"" << counted.added_end << "\"}\n";
  }
}

}  // namespace

TEST_CASE("what is trained is what TRL's training templates mark") {
  const Tokenizer tokenizer = MakeTokenizer();
  std::map<std::string, Counted> families;
  ForEachRow(kMasks + "/masks.jsonl", [&](const JsonValue& row) {
    const std::string family = row.Find("family")->text;
    const auto chat_template = ChatTemplate::Create(row.Find("template")->text, tokenizer);
    INFO(family << ", " << row.Find("name")->text << "\n" << chat_template.status());
    REQUIRE(chat_template.ok());
    Counted& counted = families[family];
    ++counted.conversations;
    const auto rendered = chat_template->RenderForTraining(ConversationOf(*row.Find("variables")));
    INFO(rendered.status());
    REQUIRE(rendered.ok() == (row.Find("error") == nullptr));
    counted.refused += !rendered.ok();
    if (!rendered.ok()) return;
    CHECK(rendered->text == absl::StrCat(row.Find("text")->text, rendered->added_end));
    std::vector<std::string> found, marked;
    for (const auto& [begin, end] : rendered->assistant) {
      found.emplace_back(absl::StripAsciiWhitespace(absl::string_view(rendered->text).substr(begin, end - begin)));
    }
    for (const JsonValue& part : row.Find("parts")->items) marked.push_back(part.text);
    INFO("rewritten " << rendered->rewritten << ", without end " << rendered->without_end);
    const bool same_text = row.Find("same_text")->boolean && rendered->rewritten == 0;
    INFO("found:\n" << absl::StrJoin(found, "\n--\n") << "\nmarked:\n" << absl::StrJoin(marked, "\n--\n"));
    const bool is_same = row.Find("different")->kind == JsonValue::Kind::kNull;  // else the generator says why
    CHECK(AreMarked(found, marked, same_text, 2 * rendered->rewritten) == is_same);
    CHECK(static_cast<int64_t>(found.size()) + rendered->rewritten ==
          Answers(*row.Find("variables")->Find("messages")));
    counted.trained += static_cast<int64_t>(rendered->assistant.size());
    counted.rewritten += rendered->rewritten;
    if (counted.added_end.empty()) counted.added_end = rendered->added_end;
  });
  Write(families);
  CHECK(families.size() >= 31);
}

}  // namespace distill
