// Environment variables, under the names that the tools of stores and of the hub have for them.
#pragma once

#include <string>

namespace distill {

// The value of a variable; empty where it is not set.
std::string EnvironmentText(const char* name);

// Whether it is 1, ON, YES or TRUE, in any case.
bool EnvironmentFlag(const char* name);

}  // namespace distill
