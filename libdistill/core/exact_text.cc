#include "libdistill/core/exact_text.h"

#include <charconv>

namespace distill {

std::string ExactText(double value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

}  // namespace distill
