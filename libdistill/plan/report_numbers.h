// Numbers as plans write them; inside plan/ only.
#pragma once

#include <cstdint>
#include <string>

namespace distill {

// "150,000"
std::string WithCommas(int64_t number);
// "0.0123", "1.23", "123", "12345": of digits behind the point, as many as make three.
std::string ThreeDigits(double number);
// Of dollars, with two decimals: "1,234.50".
std::string Cents(double dollars);
double GiB(int64_t bytes);

}  // namespace distill
