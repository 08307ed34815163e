#include "tests/data/row_readers.h"

#include "absl/strings/str_cat.h"
#include "libdistill/data/labelled_text_dataset.h"
#include "libdistill/data/span_dataset.h"
#include "libdistill/data/text_dataset.h"
#include "tests/data/chat_files.h"

namespace distill {
namespace {

Loaded ContentOf(const Dataset& dataset, const std::string& summary) {
  return absl::StrCat(dataset.Fingerprint().value(), ", ", summary);
}

constexpr char kPicky[] =
    "{% for m in messages %}{% if m['content'] == 'stop' %}{{ raise_exception('no stopping') }}{% endif %}"
    "{% generation %}{% if m['content'] != 'dumb' %}{{ m['content'] }}{% endif %}{% endgeneration %}{% endfor %}";

Reader TextReader(TextForm form) {
  return {form == TextForm::kCut ? "texts" : "blocks of texts",
          [form](const std::string& path, int64_t num_samples, const RowOptions& rows) -> Loaded {
            const auto data =
                LoadTextDataset(path, ByteTokenizer("<|eot_id|>"),
                                {.num_samples = num_samples, .max_length = 5, .form = form, .rows = rows});
            return data.ok() ? ContentOf(*data->tokens, data->summary) : data.status();
          },
          {R"({"text":"abcd"})", R"({"text":"efghi"})", R"({"text":"jklmno"})"},
          {{R"({"body":"abc"})", "the field 'text' is missing; the row has 'body'"},
           {R"({"text":["abc"]})", "'text' is not a string"}}};
}

Reader SpanReader() {
  const auto row = [](const std::string& question, const std::string& answer, int start) {
    return absl::StrCat(R"({"id":"q","question":")", question, R"(","context":"abcdefgh","answers":{"text":[")", answer,
                        R"("],"answer_start":[)", start, "]}}");
  };
  return {"questions",
          [](const std::string& path, int64_t num_samples, const RowOptions& rows) -> Loaded {
            const auto data =
                LoadSpanDataset(path, ByteTokenizer(),
                                {.num_samples = num_samples, .windows = {.max_length = 8, .stride = 2}, .rows = rows});
            return data.ok() ? ContentOf(*data->windows, data->summary) : data.status();
          },
          {row("who", "cd", 2), row("why", "g", 6), row("how", "abc", 0)},
          {{R"({"question":"a","context":"b"})", "the field 'answers' is missing"},
           {R"({"id":7,"question":"a","context":"b"})", "'id' is not a string"},
           {row("who", "cd", 3), "answer 0, 'cd', does not stand at character 3"},
           {R"({"question":"a","context":"","answers":{"text":[],"answer_start":[]}})", "the context has no tokens"},
           {R"({"question":"questions","context":"abcdefgh","answers":{"text":[],"answer_start":[]}})",
            "the question leaves too little room for the context: raise max_length, which is 8"}}};
}

}  // namespace

Reader ChatReader() {
  return {"chats",
          [](const std::string& path, int64_t num_samples, const RowOptions& rows) -> Loaded {
            const auto data = LoadChat(path, {.num_samples = num_samples, .rows = rows}, kPicky);
            return data.ok() ? ContentOf(*data->tokens, data->summary) : data.status();
          },
          {ChatRow("a", "bcd"), ChatRow("ef", "ghi"), ChatRow("j", "klm")},
          {{R"({"story":"hello"})", "the row has neither 'messages' nor 'conversations'"},
           {R"({"messages":[{"role":"wizard","content":"a"}]})", "messages[0]: unknown role 'wizard'"},
           {R"({"messages":[{"role":"user","content":["a"]}]})", "messages[0]: 'content' has a part"},
           {R"({"messages":[{"role":"user","content":"hello?"}]})", "no answer; each row needs"},
           {R"({"tools":{"name":"f"},"messages":[]})", "'tools' is no list"},
           {ChatRow("stop", "x"), "the template refuses these messages: no stopping"},
           {ChatRow("x", "dumb"), "the chat template renders none of the answer"}}};
}

Reader LabelReader() {
  return {"labelled texts",
          [](const std::string& path, int64_t num_samples, const RowOptions& rows) -> Loaded {
            const auto data =
                LoadLabelledTextDataset(path, ByteTokenizer(), {.num_samples = num_samples, .rows = rows});
            return data.ok() ? ContentOf(*data->samples, data->summary) : data.status();
          },
          {R"({"text":"abc","label":0})", R"({"text":"de","label":1})", R"({"text":"fgh","label":0})"},
          {{R"({"text":"abc"})", "the field 'label' is missing"},
           {R"({"label":1})", "the field 'text' is missing"},
           {R"({"text":"","label":7})", "the text has no tokens"},
           {R"({"text":"abc","label":-1})", "'label' is not a whole number from 0"},
           {R"({"text":"abc","label":"good"})", "'label' is 'good', which is not among the labels"}}};
}

std::vector<Reader> Readers() {
  std::vector<Reader> readers = {ChatReader(), TextReader(TextForm::kCut), TextReader(TextForm::kBlocks), LabelReader(),
                                 SpanReader()};
  const std::vector<BadRow> for_all = {
      {"{\"text\": \"cut o", "not valid JSON"},
      {"{\"text\": \"\xff\"}", "not valid UTF-8"},
      {"{\"text\": \"a\"} {}", "not valid JSON"},
      {"[1, 2]", "the row is not a JSON object"},
      {std::string(70, '[') + std::string(70, ']'), "nested more than 64 levels"},
  };
  for (Reader& reader : readers) reader.bad.insert(reader.bad.end(), for_all.begin(), for_all.end());
  return readers;
}

}  // namespace distill
