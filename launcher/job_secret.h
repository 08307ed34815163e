// What a job's ranks prove to one another.
#pragma once

#include <string>

namespace distill {

// 32 random bytes in hexadecimal.
std::string MakeJobSecret();

// Puts one into the environment, unless the user has given one there.
void ExportJobSecret();

}  // namespace distill
