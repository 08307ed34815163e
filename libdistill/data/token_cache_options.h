// Where tokens are kept, so that a data set is tokenized once for a host: not by each rank, and not again when the
// program starts again.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace distill {

struct TokenCache {
  std::string folder =
      "";  // local; made where it is missing; empty: tokens are kept in memory, by each rank for itself
  bool is_required = true;  // false: where the folder cannot be written, tokens are kept in memory, with a warning
  absl::Time rebuild_before = absl::InfinitePast();  // what was kept before is made anew
};

// What the environment says in DISTILL_CACHE_DIR; else "CACHE/libdistill/tokens", where CACHE is XDG_CACHE_HOME, or
// else ~/.cache; empty where none is known.
std::string DefaultTokenCacheFolder();

}  // namespace distill
