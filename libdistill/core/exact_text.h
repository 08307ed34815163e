// Numbers as text that reads back as the same number.
#pragma once

#include <string>

namespace distill {

// The shortest such text: two values that differ never look alike.
std::string ExactText(double value);

}  // namespace distill
