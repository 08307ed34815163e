#include "libdistill/store/jsonl.h"

#include <simdjson.h>

#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// The recursion is as deep as the parser's own limit on nesting.
JsonValue Convert(simdjson::dom::element element) {
  JsonValue value;
  switch (element.type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      break;
    case simdjson::dom::element_type::BOOL:
      value.kind = JsonValue::Kind::kBool;
      value.boolean = element.get_bool().value_unsafe();
      break;
    case simdjson::dom::element_type::INT64:
    case simdjson::dom::element_type::UINT64:
    case simdjson::dom::element_type::DOUBLE:
      value.kind = JsonValue::Kind::kNumber;
      value.number = element.get_double().value_unsafe();
      if (element.is_int64()) value.integer = element.get_int64().value_unsafe();
      break;
    case simdjson::dom::element_type::STRING:
      value.kind = JsonValue::Kind::kString;
      value.text = element.get_string().value_unsafe();
      break;
    case simdjson::dom::element_type::ARRAY: {
      value.kind = JsonValue::Kind::kArray;
      const simdjson::dom::array items = element.get_array().value_unsafe();
      for (const simdjson::dom::element item : items) value.items.push_back(Convert(item));
      break;
    }
    case simdjson::dom::element_type::OBJECT: {
      value.kind = JsonValue::Kind::kObject;
      const simdjson::dom::object members = element.get_object().value_unsafe();
      for (const simdjson::dom::key_value_pair member : members) {
        value.members.emplace_back(member.key, Convert(member.value));
      }
      break;
    }
  }
  return value;
}

bool IsBlank(absl::string_view line) { return line.find_first_not_of(" \t\r") == absl::string_view::npos; }

// One value over many lines begins with a bracket alone.
const char* HintFor(absl::string_view line) {
  const size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t\r");
  const bool is_bracket = first == last && (line[first] == '[' || line[first] == '{');
  return is_bracket ? "; JSON Lines has each value on a line of its own, and no list around them"
                    : "; complete or remove the line";
}

// The parser has room for the text.
absl::StatusOr<JsonValue> Parse(std::string text, simdjson::dom::parser& parser) {
  const size_t size = text.size();
  text.reserve(size + simdjson::SIMDJSON_PADDING);
  simdjson::dom::element element;
  const simdjson::error_code error = parser.parse(text.data(), size, /*realloc_if_needed=*/false).get(element);
  if (error == simdjson::SUCCESS) return Convert(element);
  if (error == simdjson::UTF8_ERROR) {
    return absl::InvalidArgumentError(
        "the line is not valid UTF-8; convert the file (iconv -t UTF-8 -f ENCODING), or remove the line");
  }
  if (error == simdjson::DEPTH_ERROR) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON is nested more than ", JsonlReader::kMaxDepth, " levels deep; flatten or remove the line"));
  }
  return absl::InvalidArgumentError(absl::StrCat("not valid JSON: ", simdjson::error_message(error), HintFor(text)));
}

}  // namespace

JsonValue::JsonValue() = default;

const JsonValue* JsonValue::Find(absl::string_view name) const {
  for (const auto& [key, value] : members) {
    if (key == name) return &value;
  }
  return nullptr;
}

struct JsonlReader::Impl {
  std::string path;
  std::ifstream file;
  std::vector<char> buffer = std::vector<char>(size_t{1} << 18);
  size_t begin = 0, end = 0;  // what of the buffer is not read yet
  int64_t filled = 0;         // bytes of the file that were in the buffer so far
  int64_t line = 0;
  simdjson::dom::parser parser;

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", what));
  }

  bool Fill() {
    if (begin < end) return true;
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    begin = 0;
    end = static_cast<size_t>(file.gcount());
    filled += static_cast<int64_t>(end);
    return end > 0;
  }

  // The next line without its newline; false at the end of the file. A line that is too long is read to its end too.
  absl::StatusOr<bool> ReadLine(std::string* text) {
    text->clear();
    if (!Fill()) {
      if (file.bad()) {
        return absl::UnavailableError(
            absl::StrCat(path, ": reading failed after line ", line, "; check the disk, and start again"));
      }
      return false;
    }
    ++line;
    bool is_too_long = false;
    while (Fill()) {
      const char* start = buffer.data() + begin;
      const void* newline = std::memchr(start, '\n', end - begin);
      const size_t count = newline == nullptr ? end - begin : static_cast<const char*>(newline) - start;
      is_too_long |= text->size() + count > kMaxLineBytes;
      if (!is_too_long) text->append(start, count);
      begin += count + (newline != nullptr);
      if (newline != nullptr) break;
    }
    if (is_too_long) return Error("the line is longer than 64 MiB; shorten or remove it");
    return true;
  }
};

absl::StatusOr<JsonlReader> JsonlReader::Open(const std::string& path) {
  DISTILL_RETURN_IF_ERROR(RequireLocalPath(path));
  if (FolderExists(path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder, not a .jsonl file; name a file in it"));
  }
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->file.open(path, std::ios::binary);
  if (!impl->file) {
    return absl::NotFoundError(
        absl::StrCat(path, ": no such file, or it cannot be read; check the path and its permissions"));
  }
  return JsonlReader(std::move(impl));
}

absl::StatusOr<std::optional<JsonlRow>> JsonlReader::Next() {
  std::string text;
  do {
    DISTILL_ASSIGN_OR_RETURN(const bool more, impl_->ReadLine(&text));
    if (!more) return std::nullopt;
    if (impl_->line == 1 && text.compare(0, 3, "\xEF\xBB\xBF") == 0) text.erase(0, 3);
  } while (IsBlank(text));

  if (impl_->parser.capacity() < text.size() && impl_->parser.allocate(text.size(), kMaxDepth) != simdjson::SUCCESS) {
    return absl::ResourceExhaustedError(absl::StrCat(impl_->path, ":", impl_->line, ": no memory for a line of ",
                                                     text.size(), " bytes; shorten or remove it"));
  }
  absl::StatusOr<JsonValue> value = Parse(std::move(text), impl_->parser);
  if (!value.ok()) return impl_->Error(value.status().message());
  return JsonlRow{impl_->line, *std::move(value)};
}

absl::StatusOr<JsonValue> ParseJson(absl::string_view text) {
  simdjson::dom::parser parser;
  if (parser.allocate(text.size(), JsonlReader::kMaxDepth) != simdjson::SUCCESS) {
    return absl::ResourceExhaustedError("no memory to read this JSON");
  }
  return Parse(std::string(text), parser);
}

int64_t JsonlReader::bytes_read() const { return impl_->filled - static_cast<int64_t>(impl_->end - impl_->begin); }

JsonlReader::JsonlReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JsonlReader::JsonlReader(JsonlReader&&) noexcept = default;
JsonlReader& JsonlReader::operator=(JsonlReader&&) noexcept = default;
JsonlReader::~JsonlReader() = default;

}  // namespace distill
