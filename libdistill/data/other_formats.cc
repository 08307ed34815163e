#include "libdistill/data/other_formats.h"

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// What a file begins with, or its name ends with, and how Python makes JSON Lines of it: `%` is the path.
struct Format {
  absl::string_view name;
  std::vector<absl::string_view> beginnings;
  std::vector<absl::string_view> endings;
  absl::string_view conversion;
};

const std::vector<Format>& Formats() {
  static const auto* const formats = new std::vector<Format>{
      {"a pointer of Git LFS, not the file itself", {"version https://git-lfs"}, {}, "git lfs pull"},
      {"Parquet",
       {"PAR1"},
       {".parquet"},
       "python3 -c \"import datasets; datasets.load_dataset('parquet', data_files='%', "
       "split='train').to_json('%.jsonl')\""},
      {"Arrow",
       {"ARROW1"},
       {".arrow", ".feather"},
       "python3 -c \"import datasets; datasets.Dataset.from_file('%').to_json('%.jsonl')\""},
      {"compressed by gzip", {"\x1f\x8b"}, {".gz"}, "gzip -dk '%'"},
      {"compressed by zstd", {"\x28\xb5\x2f\xfd"}, {".zst"}, "zstd -dk '%'"},
      {"compressed by xz", {"\xfd\x37zXZ"}, {".xz"}, "xz -dk '%'"},
      {"a zip archive", {"PK\x03\x04"}, {".zip"}, "unzip '%'"},
      {"CSV",
       {},
       {".csv", ".tsv"},
       "python3 -c \"import csv, json; [print(json.dumps(row)) for row in csv.DictReader(open('%'))]\" > '%.jsonl'"},
      {"one JSON array",
       {"["},
       {},
       "python3 -c \"import json; [print(json.dumps(row)) for row in json.load(open('%'))]\" > '%.jsonl'"}};
  return *formats;
}

// The first bytes that are no white space, or nothing where the file cannot be read.
std::string Beginning(const std::string& path) {
  std::string bytes(256, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return std::string(absl::StripLeadingAsciiWhitespace(bytes));
}

// One JSON array, whose rows are objects, over several lines: a line `[1, 2]` alone is a bad row of JSON Lines.
bool IsArrayOfObjects(absl::string_view beginning) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(beginning.substr(1)), "{");
}

const Format* FormatOf(const std::string& path) {
  const std::string beginning = Beginning(path);
  if (absl::StartsWith(beginning, "{")) return nullptr;  // whatever its name
  for (const Format& format : Formats()) {
    for (const absl::string_view begins : format.beginnings) {
      if (!absl::StartsWith(beginning, begins)) continue;
      if (begins != "[" || IsArrayOfObjects(beginning)) return &format;
    }
    for (const absl::string_view ends : format.endings) {
      if (absl::EndsWithIgnoreCase(path, ends)) return &format;
    }
  }
  return nullptr;
}

std::string WithPath(absl::string_view conversion, const std::string& path) {
  std::string text;
  for (const char c : conversion) {
    if (c == '%') {
      text += path;
    } else {
      text += c;
    }
  }
  return text;
}

absl::Status Refuse(const std::string& path, const Format& format) {
  return absl::InvalidArgumentError(absl::StrCat(path, " is ", format.name, "; chat data are JSON Lines (.jsonl), one ",
                                                 "row a line: ", WithPath(format.conversion, path)));
}

}  // namespace

absl::Status CheckIsJsonLines(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return absl::OkStatus();  // a pipe can be read once
  const Format* format = FormatOf(path);
  return format == nullptr ? absl::OkStatus() : Refuse(path, *format);
}

absl::Status CheckIsNoOtherFolder(const std::string& folder) {
  for (const auto& [name, what] : {std::pair("dataset_dict.json", "['train']"), std::pair("state.json", "")}) {
    if (!FileExists(JoinPath(folder, name))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        folder, " was saved by the datasets library; chat data are JSON Lines (.jsonl): python3 -c \"import datasets; ",
        "datasets.load_from_disk('", folder, "')", what, ".to_json('", folder, ".jsonl')\""));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(folder, "", ""));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    for (const Format& format : Formats()) {
      for (const absl::string_view ends : format.endings) {
        if (absl::EndsWithIgnoreCase(name, ends)) return Refuse(path, format);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace distill
