// Which of libfabric's providers to use, and what we ask of it. Internal to transport/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/transport/fabric_endpoint.h"

struct fi_info;

namespace distill {

struct FabricInfoDeleter {
  void operator()(fi_info* info) const;
};
using FabricInfo = std::unique_ptr<fi_info, FabricInfoDeleter>;

// The version of libfabric's interface that we ask for, given that of the loaded library (fi_version()): 1.18 where it
// has that, else 1.17. A pure function.
uint32_t AskedFabricVersion(uint32_t loaded);

struct FoundFabrics {
  std::vector<FabricInfo> rails;
  // A rank's part of what the host's cards send, where they are network cards; 0: nobody says. A card of efa's that
  // does not say counts as one of 100 Gbit/s, which P4d's and P5's are.
  double gigabytes_per_second = 0;
};

// The first match of libfabric's for the options, then what can be a rail beside it, at most max_rails in all.
// Unavailable names the providers that were tried.
[[nodiscard]] absl::StatusOr<FoundFabrics> FindFabrics(const FabricOptions& options);

// "what: libfabric's text for the code"; `code` is negative, as libfabric returned it.
[[nodiscard]] absl::Status FabricError(const std::string& what, long code);

}  // namespace distill
