// Paths as users write them.
#pragma once

#include <string>

namespace distill {

// The path with a leading "~" or "~/" in place of HOME; as it is where HOME is not set. A shell expands it only at the
// beginning of a word, so that --output_dir=~/run and config files still have it. "~name" is left alone.
std::string ExpandHome(const std::string& path);

}  // namespace distill
