#include "tests/comm/efa_like_ranks.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/transport/fabric_library.h"
#include "tests/comm/efa_like_fabric.h"
#include "tests/support/ranks.h"

namespace distill::testing {
namespace {

absl::Status Install(const World& world) {
  int rails = 0;
  if (!absl::SimpleAtoi(EfaLikeRails(), &rails) || (rails != 1 && rails != 2 && rails != 4)) {
    return absl::InvalidArgumentError(absl::StrCat("DISTILL_TEST_EFA_LIKE is '", EfaLikeRails(), "'; 1, 2 or 4"));
  }
  return EfaLikeFabric::Install(static_cast<uint64_t>(world.rank), rails);
}

// Ranks inherit the library, which takes a third of a second to load.
[[maybe_unused]] const bool prepared = [] {
  if (EfaLikeRails() != nullptr) PrepareRanks([] { (void)LoadFabricLibrary(); }, &Install);
  return true;
}();

}  // namespace
}  // namespace distill::testing
