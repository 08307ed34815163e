#include "libdistill/core/check.h"

#include <cstdio>
#include <cstdlib>

#include "libdistill/core/identity.h"

namespace distill {

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "libdistill: broken invariant on %s at %s:%d: %s: %s\n", DescribeIdentity().c_str(), file, line,
               condition, message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace distill
