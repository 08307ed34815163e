#include "libdistill/store/arrow_value.h"

#include <arrow/api.h>
#include <arrow/util/float16.h>

#include "absl/strings/str_cat.h"

namespace distill {
namespace {

JsonValue Text(std::string_view text) {
  JsonValue value;
  value.kind = JsonValue::Kind::kString;
  value.text = std::string(text);
  return value;
}

JsonValue Number(double number) {
  JsonValue value;
  value.kind = JsonValue::Kind::kNumber;
  value.number = number;
  return value;
}

JsonValue Integer(int64_t number) {
  JsonValue value = Number(static_cast<double>(number));
  value.integer = number;
  return value;
}

JsonValue ListOf(const arrow::Array& values, int64_t begin, int64_t end) {
  JsonValue value;
  value.kind = JsonValue::Kind::kArray;
  value.items.reserve(static_cast<size_t>(end - begin));
  for (int64_t i = begin; i < end; ++i) value.items.push_back(ValueOf(values, i));
  return value;
}

JsonValue ObjectOf(const arrow::StructArray& array, int64_t index) {
  JsonValue value;
  value.kind = JsonValue::Kind::kObject;
  for (int i = 0; i < array.num_fields(); ++i) {
    value.members.emplace_back(array.struct_type()->field(i)->name(), ValueOf(*array.field(i), index));
  }
  return value;
}

JsonValue MapOf(const arrow::MapArray& array, int64_t index) {
  JsonValue value;
  value.kind = JsonValue::Kind::kObject;
  for (int64_t i = array.value_offset(index); i < array.value_offset(index + 1); ++i) {
    value.members.emplace_back(ValueOf(*array.keys(), i).text, ValueOf(*array.items(), i));
  }
  return value;
}

template <typename ArrayType>
const ArrayType& As(const arrow::Array& array) {
  return static_cast<const ArrayType&>(array);
}

// Those that hold no others.
JsonValue PlainValueOf(const arrow::Array& array, int64_t i) {
  switch (array.type_id()) {
    case arrow::Type::BOOL: {
      JsonValue value;
      value.kind = JsonValue::Kind::kBool;
      value.boolean = As<arrow::BooleanArray>(array).Value(i);
      return value;
    }
    case arrow::Type::INT8:
      return Integer(As<arrow::Int8Array>(array).Value(i));
    case arrow::Type::INT16:
      return Integer(As<arrow::Int16Array>(array).Value(i));
    case arrow::Type::INT32:
      return Integer(As<arrow::Int32Array>(array).Value(i));
    case arrow::Type::INT64:
      return Integer(As<arrow::Int64Array>(array).Value(i));
    case arrow::Type::UINT8:
      return Integer(As<arrow::UInt8Array>(array).Value(i));
    case arrow::Type::UINT16:
      return Integer(As<arrow::UInt16Array>(array).Value(i));
    case arrow::Type::UINT32:
      return Integer(As<arrow::UInt32Array>(array).Value(i));
    case arrow::Type::UINT64: {
      const uint64_t number = As<arrow::UInt64Array>(array).Value(i);
      return number >> 63 == 0 ? Integer(static_cast<int64_t>(number)) : Number(static_cast<double>(number));
    }
    case arrow::Type::HALF_FLOAT:
      return Number(arrow::util::Float16::FromBits(As<arrow::HalfFloatArray>(array).Value(i)).ToDouble());
    case arrow::Type::FLOAT:
      return Number(As<arrow::FloatArray>(array).Value(i));
    case arrow::Type::DOUBLE:
      return Number(As<arrow::DoubleArray>(array).Value(i));
    case arrow::Type::STRING:
      return Text(As<arrow::StringArray>(array).GetView(i));
    case arrow::Type::LARGE_STRING:
      return Text(As<arrow::LargeStringArray>(array).GetView(i));
    case arrow::Type::STRING_VIEW:
      return Text(As<arrow::StringViewArray>(array).GetView(i));
    default:
      return JsonValue();
  }
}

}  // namespace

std::string WhyNoJson(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::NA:
    case arrow::Type::BOOL:
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::UINT8:
    case arrow::Type::UINT16:
    case arrow::Type::UINT32:
    case arrow::Type::UINT64:
    case arrow::Type::HALF_FLOAT:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
      return "";
    case arrow::Type::DICTIONARY:
      return WhyNoJson(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case arrow::Type::MAP: {
      const auto& map = static_cast<const arrow::MapType&>(type);
      const arrow::Type::type key = map.key_type()->id();
      if (key != arrow::Type::STRING && key != arrow::Type::LARGE_STRING) return "a map whose keys are no texts";
      return WhyNoJson(*map.item_type());
    }
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
    case arrow::Type::STRUCT:
      for (const auto& field : type.fields()) {
        if (std::string why = WhyNoJson(*field->type()); !why.empty()) return why;
      }
      return "";
    default:
      return absl::StrCat("values of type ", type.ToString(), ", which are no text, number, list or struct of them");
  }
}

JsonValue ValueOf(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) return JsonValue();
  switch (array.type_id()) {
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = As<arrow::DictionaryArray>(array);
      return ValueOf(*dictionary.dictionary(), dictionary.GetValueIndex(i));
    }
    case arrow::Type::LIST: {
      const auto& list = As<arrow::ListArray>(array);
      return ListOf(*list.values(), list.value_offset(i), list.value_offset(i + 1));
    }
    case arrow::Type::LARGE_LIST: {
      const auto& list = As<arrow::LargeListArray>(array);
      return ListOf(*list.values(), list.value_offset(i), list.value_offset(i + 1));
    }
    case arrow::Type::FIXED_SIZE_LIST: {
      const auto& list = As<arrow::FixedSizeListArray>(array);
      return ListOf(*list.values(), list.value_offset(i), list.value_offset(i + 1));
    }
    case arrow::Type::STRUCT:
      return ObjectOf(As<arrow::StructArray>(array), i);
    case arrow::Type::MAP:
      return MapOf(As<arrow::MapArray>(array), i);
    default:
      return PlainValueOf(array, i);
  }
}

}  // namespace distill
