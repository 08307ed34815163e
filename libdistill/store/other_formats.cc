#include "libdistill/store/other_formats.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// What a file begins with, or its name ends with, and how to make JSON Lines of it: `%` is the path.
struct Format {
  absl::string_view name;
  std::vector<absl::string_view> beginnings;
  std::vector<absl::string_view> endings;
  absl::string_view conversion;
};

const std::vector<Format>& Formats() {
  static const auto* const formats = new std::vector<Format>{
      {"a pointer of Git LFS, not the file itself", {"version https://git-lfs"}, {}, "git lfs pull"},
      {"Arrow",
       {"ARROW1"},
       {".arrow", ".feather"},
       "python3 -c \"import datasets; datasets.Dataset.from_file('%').to_json('%.jsonl')\""},
      {"HDF5, which holds recordings and no rows",
       {"\x89HDF\r\n\x1a\n"},
       {".hdf5", ".h5"},
       "distill_data count '%' says what is in it"},
      {"compressed by xz", {"\xfd\x37zXZ"}, {".xz"}, "xz -dk '%'"},
      {"compressed by bzip2", {"BZh"}, {".bz2"}, "bzip2 -dk '%'"},
      {"a zip archive", {"PK\x03\x04"}, {".zip"}, "unzip '%'"},
      {"one JSON array",
       {"["},
       {},
       "python3 -c \"import json; [print(json.dumps(row)) for row in json.load(open('%'))]\" > '%.jsonl'"}};
  return *formats;
}

// One JSON array, whose rows are objects, over several lines: a line `[1, 2]` alone is a bad row of JSON Lines.
bool IsArrayOfObjects(absl::string_view beginning) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(beginning.substr(1)), "{");
}

bool BeginsAs(absl::string_view beginning, const Format& format) {
  for (const absl::string_view begins : format.beginnings) {
    if (absl::StartsWith(beginning, begins) && (begins != "[" || IsArrayOfObjects(beginning))) return true;
  }
  return false;
}

bool EndsAs(const std::string& path, const Format& format) {
  for (const absl::string_view ends : format.endings) {
    if (absl::EndsWithIgnoreCase(path, ends)) return true;
  }
  return false;
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
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is ", format.name,
      "; data are JSON Lines (.jsonl, also .gz and .zst), Parquet or CSV: ", WithPath(format.conversion, path)));
}

}  // namespace

absl::Status CheckIsNoOtherFormat(const std::string& path, absl::string_view beginning) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(beginning);
  if (absl::StartsWith(text, "{")) return absl::OkStatus();  // whatever its name
  for (const Format& format : Formats()) {
    if (BeginsAs(text, format) || EndsAs(path, format)) return Refuse(path, format);
  }
  return absl::OkStatus();
}

absl::Status CheckIsNoOtherFolder(const std::string& folder) {
  for (const auto& [name, what] : {std::pair("dataset_dict.json", "['train']"), std::pair("state.json", "")}) {
    if (!FileExists(JoinPath(folder, name))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        folder,
        " was saved by the datasets library; data are JSON Lines, Parquet or CSV: python3 -c \"import datasets; ",
        "datasets.load_from_disk('", folder, "')", what, ".to_parquet('", folder, ".parquet')\""));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(folder, "", ""));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    for (const Format& format : Formats()) {
      if (EndsAs(name, format)) return Refuse(path, format);
    }
  }
  return absl::OkStatus();
}

}  // namespace distill
