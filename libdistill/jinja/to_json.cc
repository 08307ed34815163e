#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/builtins.h"

namespace distill::jinja {
namespace {

class JsonWriter {
 public:
  bool ensure_ascii = false, sort_keys = false, pretty = false;
  std::string indent, item_separator = ", ", key_separator = ": ";

  absl::Status Write(const Value& value, int level) {
    if (out_.size() > kMaxTextBytes) return Error("tojson: the text grows beyond 64 MiB");
    if (value.IsNone()) {
      out_ += "null";
    } else if (value.IsNumber()) {
      out_ += NumberText(value);
    } else if (const std::string* text = value.text()) {
      WriteString(*text);
    } else if (const List* list = value.list()) {
      return WriteItems("[]", list->items, level, [&](const Value& item) { return Write(item, level + 1); });
    } else if (const Dict* dict = value.dict(); dict != nullptr && dict->kind == Dict::Kind::kDict) {
      return WriteDict(*dict, level);
    } else {
      return Error(absl::StrCat("tojson: ", value.IsUndefined() ? value.reason() : TypeName(value), " is no JSON"));
    }
    return absl::OkStatus();
  }

  std::string TakeText() { return std::move(out_); }

 private:
  static std::string NumberText(const Value& value) {
    if (value.IsBool()) return value.integer() != 0 ? "true" : "false";
    if (value.IsInteger()) return absl::StrCat(value.integer());
    const double number = value.number();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(number);
  }

  void WriteString(const std::string& text) {
    out_.push_back('"');
    for (size_t i = 0; i < text.size();) {
      const size_t begin = i;
      const char32_t c = NextCodePoint(text, &i);
      static constexpr absl::string_view kPlain = "\"\\\b\f\n\r\t", kEscaped = "\"\\bfnrt";
      const size_t escape = c < 0x80 ? kPlain.find(static_cast<char>(c)) : absl::string_view::npos;
      if (escape != absl::string_view::npos) {
        out_.push_back('\\');
        out_.push_back(kEscaped[escape]);
      } else if (c >= 0x10000 && ensure_ascii) {
        absl::StrAppendFormat(&out_, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                              0xDC00 + ((c - 0x10000) & 0x3FF));
      } else if (c < 0x20 || (c > 0x7E && ensure_ascii && c != 0x7F)) {
        absl::StrAppendFormat(&out_, "\\u%04x", static_cast<uint32_t>(c));
      } else {
        out_.append(text, begin, i - begin);
      }
    }
    out_.push_back('"');
  }

  void NewLine(int level) {
    if (!pretty) return;
    out_.push_back('\n');
    for (int i = 0; i < level; ++i) out_ += indent;
  }

  absl::Status WriteItems(const char* brackets, const auto& items, int level, const auto& write) {
    out_.push_back(brackets[0]);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += item_separator;
      NewLine(level + 1);
      DISTILL_RETURN_IF_ERROR(write(items[i]));
    }
    if (!items.empty()) NewLine(level);
    out_.push_back(brackets[1]);
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Dict& dict, int level) {
    std::vector<std::pair<Value, Value>> entries = dict.entries;
    if (sort_keys) {
      for (const auto& [key, value] : entries) {
        if (!key.IsString()) return Error("tojson: sort_keys needs keys that are strings");
      }
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return *a.first.text() < *b.first.text(); });
    }
    return WriteItems("{}", entries, level, [&](const auto& entry) {
      const auto& [key, value] = entry;
      if (!key.IsString() && !key.IsNumber() && !key.IsNone()) return Error("tojson: a key is no string");
      WriteString(key.IsString() ? *key.text() : key.IsNone() ? "null" : NumberText(key));
      out_ += key_separator;
      return Write(value, level + 1);
    });
  }

  std::string out_;
};

}  // namespace

Result ToJson(const Value& value, const Given& given) {
  JsonWriter writer;
  writer.ensure_ascii = given[0] != nullptr && IsTrue(*given[0]);
  writer.sort_keys = given[3] != nullptr && IsTrue(*given[3]);
  if (given[1] != nullptr && !given[1]->IsNone()) {
    writer.pretty = true;
    writer.item_separator.pop_back();  // no space before a newline
    if (given[1]->IsInteger()) {
      writer.indent.assign(std::clamp<int64_t>(given[1]->integer(), 0, 64), ' ');
    } else if (given[1]->IsString() && given[1]->text()->size() <= 64) {
      writer.indent = *given[1]->text();
    } else {
      return Error("tojson: indent is neither a number nor a short string");
    }
  }
  if (given[2] != nullptr && !given[2]->IsNone()) {
    const List* pair = given[2]->list();
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].IsString() || !pair->items[1].IsString()) {
      return Error("tojson: separators are not two strings");
    }
    writer.item_separator = *pair->items[0].text();
    writer.key_separator = *pair->items[1].text();
  }
  DISTILL_RETURN_IF_ERROR(writer.Write(value, 0));
  return BoundedText(writer.TakeText());
}

}  // namespace distill::jinja
