#include "libdistill/core/version.h"

#include "absl/strings/str_cat.h"

namespace distill {

const char* Version() { return DISTILL_VERSION; }

std::string VersionLine() { return absl::StrCat("libdistill ", Version(), " (", DISTILL_BUILD_KIND, ")"); }

}  // namespace distill
