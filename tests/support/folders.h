// Where tests find what the build, and scripts beside it, have made for them.
#pragma once

#include <cstdlib>
#include <string>

namespace distill {

// build/golden, with the values that other programs computed: DISTILL_GOLDEN_DIR of the environment where it is set, as
// on a machine that has the tests' programs and no build (scripts/gpu-check).
inline std::string GoldenFolder() {
  const char* elsewhere = std::getenv("DISTILL_GOLDEN_DIR");
  return elsewhere != nullptr ? elsewhere : DISTILL_BUILD_DIR "/golden";
}

// The repository's root, DISTILL_SOURCE_DIR of the environment where it is set.
inline std::string SourceFolder() {
  const char* elsewhere = std::getenv("DISTILL_SOURCE_DIR");
  return elsewhere != nullptr ? elsewhere : DISTILL_SOURCE_DIR;
}

}  // namespace distill
