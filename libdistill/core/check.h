// Broken invariants: a bug in libdistill, not bad input. Prints the rank, the place and the message, and aborts.
//
//   DISTILL_CHECK(offset <= size, absl::StrCat("offset ", offset, " in a buffer of ", size, " bytes"));
#pragma once

#include <string>

#define DISTILL_CHECK(condition, message)                                                \
  do {                                                                                   \
    if (!(condition)) ::distill::CheckFailed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)

namespace distill {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace distill
