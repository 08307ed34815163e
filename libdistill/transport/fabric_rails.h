// Which of a host's networks the ranks use at once. Internal to transport/.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

// One way to reach an endpoint.
struct FabricRail {
  std::string network;   // the same name on every rank that reaches the others over it
  std::string location;  // of the host on it, where providers say that: an IP address
  std::string address;   // libfabric's
};

// What an endpoint tells the others of itself.
struct FabricCard {
  std::string host;  // the same for ranks of one host, and only for those
  std::vector<FabricRail> rails;
  int channel = 0;  // its number, of the endpoints that share the rails; below 256

  std::string Encode() const;
  // FailedPrecondition: no such card.
  [[nodiscard]] static absl::StatusOr<FabricCard> Decode(const std::string& bytes);
};

// For every rank, in the same order: which of its rails to use. A pure function of arguments that are the same on every
// rank. The first rails are those over which the ranks met, and are used whatever their networks are called (hosts may
// stand in different subnets). A further one of rank 0's is used when every rank has one on its network, and no two
// hosts are at the same location there (that is how a network inside each host looks, a container's bridge say).
std::vector<std::vector<size_t>> CommonRails(const std::vector<FabricCard>& cards);

// FailedPrecondition, with the rank's name, where an address on a rail in use is not as long as that of rank `self`:
// libfabric is told no length, and reads as many bytes as its own addresses have.
[[nodiscard]] absl::Status CheckAddresses(const std::vector<FabricCard>& cards,
                                          const std::vector<std::vector<size_t>>& common, size_t self,
                                          const std::vector<std::string>& names);

}  // namespace distill
