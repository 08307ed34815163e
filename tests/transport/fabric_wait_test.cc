#include "libdistill/transport/fabric_wait.h"

#include "tests/support/catch.h"
#include "tests/support/quiet_endpoint.h"

namespace distill {
namespace {

using testing::QuietEndpoint;

TEST_CASE("a rank that waits long looks around ever more rarely, and soon again once something has come") {
  QuietEndpoint endpoint;
  FabricWait wait(&endpoint);
  absl::Duration slept;
  for (int look = 0; look < 200; ++look) {
    wait.Pause(/*busy=*/false);
    const absl::Duration limit = endpoint.limits.back();
    CAPTURE(look, absl::FormatDuration(limit), absl::FormatDuration(slept));
    // What comes unnoticed waits for an eighth longer than it took.
    CHECK(limit <= absl::Milliseconds(2) + slept / 8);
    CHECK(limit <= absl::Milliseconds(20));
    slept += limit;
  }
  REQUIRE(endpoint.limits.size() == 200);
  CHECK(endpoint.limits.front() == absl::Milliseconds(2));
  CHECK(endpoint.limits.back() == absl::Milliseconds(20));
  wait.Restart();
  wait.Pause(/*busy=*/false);
  CHECK(endpoint.limits.back() == absl::Milliseconds(2));
}

TEST_CASE("a rank whose provider takes nothing more does not wait to be woken") {
  QuietEndpoint endpoint;
  FabricWait wait(&endpoint);
  for (int look = 0; look < 10; ++look) wait.Pause(/*busy=*/true);
  CHECK(endpoint.limits.empty());
}

}  // namespace
}  // namespace distill
