#include "libdistill/store/line_index.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/store/files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

struct Expected {
  std::vector<std::string> rows;  // without what follows the newline
  std::vector<int64_t> numbers;
};

// What std::getline makes of a text.
Expected LinesOf(const std::string& text) {
  Expected lines;
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      lines.rows.push_back(line);
      lines.numbers.push_back(number);
    }
    begin = end + 1;
  }
  return lines;
}

void CheckIndex(const LineIndex& index, const std::string& text) {
  const Expected lines = LinesOf(text);
  REQUIRE(index.size() == static_cast<int64_t>(lines.rows.size()));
  for (int64_t row = 0; row < index.size(); ++row) {
    const LineIndex::Line line = index.line(row);
    const std::string found = text.substr(line.offset, line.bytes);
    CHECK(found.substr(0, found.find('\n')) == lines.rows[row]);
    CHECK(line.number == lines.numbers[row]);
  }
}

TEST_CASE("every row of a file is found, whatever parts it is read in and by how many threads") {
  std::vector<std::string> texts = {"",     "\n",         "{}", "{}\n", "\n\n{}\n \t\n{\"a\": 1}\r\n\r\n",
                                    "a\nb", " \n a \n\n", "   "};
  Random random(5);
  for (int i = 0; i < 40; ++i) {
    std::string text;
    for (uint64_t n = random.Below(60); n > 0; --n) text += "ab \t\r\n\n"[random.Below(7)];
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    const auto file = MakeMemoryFile("rows.jsonl", text);
    for (const int64_t part : {1, 2, 7, 1 << 20}) {
      for (const int64_t threads : {1, 3}) {
        const auto index = LineIndex::Open(*file, {.threads = threads, .part_bytes = part});
        INFO(absl::StrCat("'", text, "' in parts of ", part));
        REQUIRE(index.ok());
        CheckIndex(**index, text);
      }
    }
  }
}

TEST_CASE("an index is kept for its file, made anew where that changes, and never trusted when damaged") {
  const TempFolder folder;
  const std::string text = "{\"n\": 0}\n\n{\"n\": 1}\n{\"n\": 2}";
  const std::string path = folder.Write("rows.jsonl", text);
  const LineIndexOptions options{.folder = folder.path() + "/deep/lines"};
  const auto open = [&] {
    const auto file = OpenFile(path);
    REQUIRE(file.ok());
    auto index = LineIndex::Open(**file, options);
    REQUIRE(index.ok());
    return *std::move(index);
  };
  const auto kept = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(options.folder)) {
      if (entry.path().extension() == ".lines") names.push_back(entry.path().string());
    }
    return names;
  };
  CheckIndex(*open(), text);
  REQUIRE(kept().size() == 1);
  const std::string name = kept()[0];
  const std::string bytes = ReadFile(name).value();
  CHECK(bytes.size() == 40 + 8 * 4);
  const auto written = std::filesystem::last_write_time(name);
  CheckIndex(*open(), text);
  CHECK(std::filesystem::last_write_time(name) == written);
  for (size_t i = 0; i < bytes.size(); ++i) {  // a byte that is damaged, and a file that is cut
    std::string damaged = bytes;
    damaged[i] ^= 4;
    std::ofstream(name, std::ios::binary) << damaged;
    CheckIndex(*open(), text);
    CHECK(ReadFile(name).value() == bytes);
    std::ofstream(name, std::ios::binary) << bytes.substr(0, i);
    CheckIndex(*open(), text);
  }
  const std::string longer = text + "\n{}\n";
  folder.Write("rows.jsonl", longer);
  CheckIndex(*open(), longer);
  CHECK(kept().size() == 2);
}

TEST_CASE("where the folder cannot be written the index stays in memory") {
  const TempFolder folder;
  const std::string in_the_way = folder.Write("file", "");
  const auto index = LineIndex::Open(*MakeMemoryFile("rows.jsonl", "{}\n{}\n"), {.folder = in_the_way + "/lines"});
  REQUIRE(index.ok());
  CHECK((*index)->size() == 2);
}

}  // namespace
}  // namespace distill
