// Values of Arrow arrays as JSON. For .cc files that see Arrow.
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/store/json_value.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace distill {

// Why no JSON value holds one of this type: "values of type timestamp[us]"; empty where one does.
std::string WhyNoJson(const arrow::DataType& type);

// Of a type for which WhyNoJson is empty. A map becomes an object where its keys are texts, else a list of pairs.
JsonValue ValueOf(const arrow::Array& array, int64_t index);

}  // namespace distill
