// Rows of the hub's data sets, in their own schemas (tests/golden/rows_golden.py), against what transformers renders of
// them.
#include <string>
#include <vector>

#include "libdistill/data/chat_row.h"
#include "libdistill/store/files.h"
#include "libdistill/text/chat_template.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"
#include "tests/text/golden_rows.h"

namespace distill {
namespace {

const std::string kRows = GoldenFolder() + "/rows/";

struct Rendered {
  std::string text;
  std::vector<std::string> answers;
};

std::vector<Rendered> Expected(const std::string& name) {
  std::vector<Rendered> all;
  // JSON Lines, whatever the file is called.
  ForEachRow(kRows + name + ".rendered", [&](const JsonValue& row) {
    Rendered& one = all.emplace_back();
    one.text = row.Find("text")->text;
    for (const JsonValue& answer : row.Find("answers")->items) one.answers.push_back(answer.text + "<|im_end|>");
  });
  return all;
}

// The rows of a Parquet file, each as a conversation that is trained.
std::vector<Rendered> Found(const std::string& name, const ChatTemplate& chat) {
  std::vector<Rendered> all;
  ForEachRow(kRows + name + ".parquet", [&](const JsonValue& row) {
    const auto conversation = ParseChatRow(row);
    INFO(conversation.status());
    REQUIRE(conversation.ok());
    const auto rendered = chat.RenderForTraining(*conversation);
    INFO(rendered.status());
    REQUIRE(rendered.ok());
    Rendered& one = all.emplace_back();
    one.text = rendered->text;
    for (const auto& [begin, end] : rendered->assistant) one.answers.push_back(one.text.substr(begin, end - begin));
  });
  return all;
}

TEST_CASE("FineTome-100k and webinstruct-sub-200k are read in their own schemas, and rendered as transformers does") {
  const auto chat = ChatTemplate::Create(ReadFile(kRows + "template.jinja").value(), ByteTokenizer());
  REQUIRE(chat.ok());
  for (const auto& [name, rows] : {std::pair{"finetome", size_t{400}}, std::pair{"webinstruct", size_t{300}}}) {
    INFO(name);
    const std::vector<Rendered> expected = Expected(name), found = Found(name, *chat);
    REQUIRE(expected.size() == rows);
    REQUIRE(found.size() == rows);
    for (size_t i = 0; i < rows; ++i) {
      CHECK(found[i].text == expected[i].text);
      CHECK(found[i].answers == expected[i].answers);
    }
  }
}

}  // namespace
}  // namespace distill
