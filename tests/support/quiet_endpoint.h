// An endpoint that moves nothing, for tests of how calls wait; those override what they need.
#pragma once

#include <vector>

#include "libdistill/transport/fabric_endpoint.h"

namespace distill::testing {

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

}  // namespace distill::testing
