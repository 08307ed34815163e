// How the memory of GPUs crosses between hosts: over the fabric itself (FI_HMEM), or through pinned host memory; a pure
// function of what every rank can do. Internal to comm/.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

// What ranks ask for with a variable of their environments that is 0 (not at all), 1 (in any case) or not there: the
// one preference of those ranks that have any; empty: none has. `names`: of the ranks, for messages.
// InvalidArgument: another value. FailedPrecondition: ranks prefer different things.
[[nodiscard]] absl::StatusOr<std::string> CommonPreference(const std::string& variable,
                                                           const std::vector<std::string>& preferences,
                                                           const std::vector<std::string>& names);

// What a rank tells the others.
struct DeviceAccess {
  // kCopies: libfabric's provider takes device memory, but copies it by itself, through host memory.
  enum class Kind { kNone, kCopies, kDirect };
  Kind kind = Kind::kNone;
  std::string provider;
  std::string why_not;     // in other cases than kDirect
  std::string preference;  // DISTILL_FABRIC_HMEM of its environment: "0", "1", or empty

  std::string Encode() const;
  // FailedPrecondition: another version's.
  [[nodiscard]] static absl::StatusOr<DeviceAccess> Decode(const std::string& bytes);
};

struct DevicePath {
  bool over_fabric = false;
  std::string why;  // for the log
};

// Over the fabric where every rank's network card moves device memory by itself, with the same provider; under a
// preference of "1" also where providers copy, and it is an error where one cannot. `names`: of the ranks, for
// messages. InvalidArgument: another preference, or one that cannot be fulfilled. FailedPrecondition: ranks prefer
// different things.
[[nodiscard]] absl::StatusOr<DevicePath> ChooseDevicePath(const std::vector<DeviceAccess>& ranks,
                                                          const std::vector<std::string>& names);

}  // namespace distill
