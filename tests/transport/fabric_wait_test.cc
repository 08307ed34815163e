#include "libdistill/transport/fabric_wait.h"

#include <vector>

#include "libdistill/transport/fabric_endpoint.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// Where nothing ever comes: keeps how long it was asked to sleep, and returns at once.
class QuietEndpoint : public MessageEndpoint {
 public:
  int rails() const override { return 1; }
  absl::StatusOr<FabricMemory> Register(const void*, size_t, FabricUse) override { return FabricMemory(); }
  absl::StatusOr<bool> Send(int, uint64_t, const void*, size_t, const FabricMemory&, FabricOperation*) override {
    return false;
  }
  absl::StatusOr<bool> Receive(int, uint64_t, void*, size_t, const FabricMemory&, FabricOperation*) override {
    return false;
  }
  FabricPlace PlaceOf(const FabricMemory&) const override { return {}; }
  absl::StatusOr<bool> Write(int, uint32_t, const void*, size_t, const FabricMemory&, const FabricPlace&, uint64_t,
                             FabricOperation*) override {
    return false;
  }
  void Await(int, uint32_t, FabricOperation*) override {}
  absl::StatusOr<bool> Poll() override { return false; }
  void Withdraw() override {}
  bool wakes() const override { return true; }
  void Sleep(absl::Duration limit, int) override { limits.push_back(limit); }
  bool sleeps_late() const override { return false; }

  std::vector<absl::Duration> limits;
};

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
