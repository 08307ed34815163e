// Files of numbered rows in every format, for tests of data sets that stream them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/rows.h"
#include "libdistill/data/sample.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill::testing {

// Whether the programs that compress are there; says so where not.
inline bool CanCompress(const std::string& ending) {
  if (!absl::EndsWith(ending, ".zst") || std::system("command -v zstd > /dev/null") == 0) return true;
  std::printf("skipped in part: the program zstd is not installed\n");
  return false;
}

// Its path, with the ending that says how it is compressed.
inline std::string Compress(const std::string& path, const std::string& ending) {
  const bool is_gzip = absl::EndsWith(ending, ".gz");
  if (!is_gzip && !absl::EndsWith(ending, ".zst")) return path;
  REQUIRE(std::system(absl::StrCat(is_gzip ? "gzip -nf " : "zstd -qf --rm ", path).c_str()) == 0);
  return path + (is_gzip ? ".gz" : ".zst");
}

// Rows `first` to `last` - 1, {"n": 17, "text": "..."}, whose texts have different lengths of about `bytes`; `name` is
// without its ending (".jsonl", ".csv", ".tsv", perhaps with .gz or .zst).
inline std::string WriteRows(const TempFolder& folder, const std::string& name, const std::string& ending,
                             int64_t first, int64_t last, int64_t bytes = 20) {
  const bool is_json = absl::StartsWith(ending, ".jsonl");
  const char delimiter = absl::StartsWith(ending, ".tsv") ? '\t' : ',';
  std::string rows = is_json ? "" : absl::StrCat("n", std::string(1, delimiter), "text\n");
  Random random(static_cast<uint64_t>(first));  // so that files that are compressed are still large
  for (int64_t i = first; i < last; ++i) {
    std::string text(static_cast<size_t>(bytes / 2 + i * 7 % bytes), 'a');
    for (char& letter : text) letter = static_cast<char>('a' + random.Below(26));
    if (is_json) absl::StrAppend(&rows, "{\"n\": ", i, ", \"text\": \"", text, "\"}\n", i % 5 == 0 ? "\n" : "");
    if (!is_json)
      absl::StrAppend(&rows, i, std::string(1, delimiter), "\"", text, i % 4 == 0 ? "\nand more" : "", "\"\n");
  }
  const std::string inner = ending.substr(0, ending.find('.', 1));
  return Compress(folder.Write(name + inner, rows), ending);
}

// The number, and as many ids as the text is long.
inline absl::StatusOr<Sample> NumberOf(const JsonValue& row) {
  DISTILL_ASSIGN_OR_RETURN(const JsonValue* value, FieldOf(row, "n"));
  int64_t number = static_cast<int64_t>(value->number);
  if (value->kind == JsonValue::Kind::kString && !absl::SimpleAtoi(value->text, &number)) {
    return absl::InvalidArgumentError(absl::StrCat("'n' is '", value->text, "', which is no number"));
  }
  Sample sample;
  sample.tensors.emplace("n", HostTensor(std::vector<int64_t>{number}));
  if (const JsonValue* text = row.Find("text"); text != nullptr) {
    sample.tensors.emplace("ids", HostTensor(std::vector<int32_t>(1 + text->text.size(), 1)));
  }
  return sample;
}

// The number of the row that a sample was made of; -1: it cannot be read.
inline int64_t NumberOf(const absl::StatusOr<Sample>& sample) {
  return sample.ok() ? (*sample->Get<int64_t>("n"))[0] : -1;
}

}  // namespace distill::testing
