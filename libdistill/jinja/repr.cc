// str() and repr() of Python.
#include <utf8proc.h>

#include <charconv>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/value.h"

namespace distill::jinja {
namespace {

// str.isprintable: what no terminal shows is escaped.
bool IsPrintable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

// Writes until the text is longer than any that is allowed.
class ReprWriter {
 public:
  std::string Take() { return std::move(out_); }

  void Write(const Value& value) {
    if (out_.size() > kMaxTextBytes) return;
    if (const std::string* text = value.text()) {
      WriteQuoted(*text);
    } else if (const List* list = value.list()) {
      WriteList(*list);
    } else if (const Dict* dict = value.dict(); dict != nullptr && dict->kind == Dict::Kind::kDict) {
      out_ += '{';
      for (size_t i = 0; i < dict->entries.size(); ++i) {
        if (i > 0) out_ += ", ";
        Write(dict->entries[i].first);
        out_ += ": ";
        Write(dict->entries[i].second);
      }
      out_ += '}';
    } else {
      out_ += Word(value);
    }
  }

 private:
  static std::string Word(const Value& value) {
    if (value.IsUndefined()) return "Undefined";
    if (value.IsNone()) return "None";
    if (value.IsBool()) return value.integer() != 0 ? "True" : "False";
    if (value.IsInteger()) return absl::StrCat(value.integer());
    if (value.IsNumber()) return FloatRepr(value.number());
    if (const Object* object = value.object()) return object->Repr();
    return value.dict() != nullptr ? "<Namespace>" : "<function>";
  }

  void WriteList(const List& list) {
    using Kind = List::Kind;
    if (list.kind == Kind::kRange) {
      absl::StrAppend(&out_, "range(", list.range.begin, ", ", list.range.end);
      if (list.range.step != 1) absl::StrAppend(&out_, ", ", list.range.step);
      out_ += ')';
      return;
    }
    if (list.IsView()) {
      out_ += list.kind == Kind::kKeys ? "dict_keys(" : list.kind == Kind::kValues ? "dict_values(" : "dict_items(";
    }
    out_ += list.IsTuple() ? '(' : '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += ", ";
      Write(list.items[i]);
    }
    if (list.IsTuple() && list.items.size() == 1) out_ += ',';
    out_ += list.IsTuple() ? ')' : ']';
    if (list.IsView()) out_ += ')';
  }

  void WriteQuoted(const std::string& text) {
    const char quote = absl::StrContains(text, '\'') && !absl::StrContains(text, '"') ? '"' : '\'';
    out_ += quote;
    for (size_t i = 0; i < text.size() && out_.size() <= kMaxTextBytes;) {
      const size_t begin = i;
      const char32_t c = NextCodePoint(text, &i);
      static constexpr absl::string_view kPlain = "\\\n\r\t", kEscaped = "\\nrt";
      const size_t escape = c < 0x80 ? kPlain.find(static_cast<char>(c)) : absl::string_view::npos;
      if (escape != absl::string_view::npos || c == static_cast<char32_t>(quote)) {
        out_ += '\\';
        out_ += escape == absl::string_view::npos ? quote : kEscaped[escape];
      } else if ((c >= 0x20 && c < 0x7F) || (c > 0x7F && IsPrintable(c))) {
        out_.append(text, begin, i - begin);
      } else if (c < 0x100) {
        absl::StrAppendFormat(&out_, "\\x%02x", static_cast<uint32_t>(c));
      } else {
        c < 0x10000 ? absl::StrAppendFormat(&out_, "\\u%04x", static_cast<uint32_t>(c))
                    : absl::StrAppendFormat(&out_, "\\U%08x", static_cast<uint32_t>(c));
      }
    }
    out_ += quote;
  }

  std::string out_;
};

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value, format).ptr);
  if (plain && !absl::StrContains(text, '.')) text += ".0";
  return text;
}

std::string ToText(const Value& value) {
  if (const std::string* text = value.text()) return *text;
  return value.IsUndefined() ? "" : ToRepr(value);
}

std::string ToRepr(const Value& value) {
  ReprWriter writer;
  writer.Write(value);
  return writer.Take();
}

}  // namespace distill::jinja
