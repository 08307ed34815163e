// Where tests find what the build, and scripts beside it, have made for them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace distill {

// The build's, of which bin/ holds this program. No definition of the compiler's: objects of the tests that two presets
// have in common are compiled once.
inline std::string BuildFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path().string();
}

// build/golden, with the values that other programs computed: DISTILL_GOLDEN_DIR of the environment where it is set, as
// on a machine that has the tests' programs and no build (scripts/gpu-check).
inline std::string GoldenFolder() {
  const char* elsewhere = std::getenv("DISTILL_GOLDEN_DIR");
  return elsewhere != nullptr ? elsewhere : BuildFolder() + "/golden";
}

// The repository's root, DISTILL_SOURCE_DIR of the environment where it is set.
inline std::string SourceFolder() {
  const char* elsewhere = std::getenv("DISTILL_SOURCE_DIR");
  return elsewhere != nullptr ? elsewhere : DISTILL_SOURCE_DIR;
}

}  // namespace distill
