#include "libdistill/core/identity.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace distill {
namespace {

Identity& MutableIdentity() {
  static Identity identity;
  return identity;
}

}  // namespace

void SetIdentity(Identity identity) { MutableIdentity() = std::move(identity); }

const Identity& GetIdentity() { return MutableIdentity(); }

std::string DescribeIdentity() {
  const Identity& identity = GetIdentity();
  return identity.host.empty() ? absl::StrCat("rank ", identity.rank)
                               : absl::StrCat("rank ", identity.rank, " on ", identity.host);
}

}  // namespace distill
