#include "libdistill/comm/fabric_meeting.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/device_path.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/socket.h"

namespace distill {
namespace {

constexpr char kWritesVariable[] = "DISTILL_FABRIC_WRITES";

std::string WritesPreference() {
  const char* preference = std::getenv(kWritesVariable);
  return preference == nullptr ? "" : preference;
}

std::string Introduce(const FabricEndpoint& endpoint) {
  return PackStrings({endpoint.provider(), endpoint.address(), WritesPreference(),
                      absl::StrCat(static_cast<int>(endpoint.write_access())),
                      absl::StrCat(endpoint.gigabytes_per_second())});
}

absl::StatusOr<FabricOptions> ChooseFabric(const Setup& setup) {
  FabricOptions options;
  options.host = setup.host_ids[static_cast<size_t>(setup.world.rank)];
  if (const char* rails = std::getenv("DISTILL_FABRIC_RAILS")) {
    if (!absl::SimpleAtoi(rails, &options.max_rails) || options.max_rails < 1) {
      return absl::InvalidArgumentError(absl::StrCat("DISTILL_FABRIC_RAILS is '", rails, "'; a number from 1 on"));
    }
  }
  if (const char* bytes = std::getenv("DISTILL_FABRIC_SEND_BUFFER")) {
    if (!absl::SimpleAtoi(bytes, &options.send_buffer) || options.send_buffer < 0) {
      return absl::InvalidArgumentError(absl::StrCat("DISTILL_FABRIC_SEND_BUFFER is '", bytes,
                                                     "'; a number of bytes, or 0 for what the kernel chooses"));
    }
  }
  if (const char* provider = std::getenv("DISTILL_FABRIC_PROVIDER")) options.provider = provider;
  options.writes = WritesPreference() != "0";
  options.neighbours = setup.neighbours;
  options.self = setup.self;
  options.device_memory = setup.device_memory != nullptr;
  if (options.device_memory) {
    options.cuda_device = setup.device_memory->device_index();
    // Where nothing is known of the others, the cards nearest to the GPU are all this rank's.
    if (options.neighbours.empty()) options.neighbours.emplace_back();
    RankSpot& own = options.neighbours[options.self];
    if (own.gpu.empty()) own.gpu = setup.device_memory->pci_address();
  }
  // The interface that reaches rank 0 reaches the others, but for loopback.
  options.local_address = setup.rendezvous->local_address();
  if (!setup.one_host && IsLoopback(options.local_address)) options.local_address.clear();
  return options;
}

}  // namespace

absl::StatusOr<FabricWriting> ChooseWriting(const std::vector<FabricWriteAccess>& access,
                                            const std::vector<std::string>& preferences,
                                            const std::vector<std::string>& names) {
  const absl::StatusOr<std::string> preference = CommonPreference(kWritesVariable, preferences, names);
  DISTILL_RETURN_IF_ERROR(preference.status());
  const auto worst = std::min_element(access.begin(), access.end());
  if (preference->empty()) return *worst == FabricWriteAccess::kGood ? FabricWriting::kLong : FabricWriting::kNone;
  if (*preference == "0") return FabricWriting::kNone;
  if (*worst != FabricWriteAccess::kNone) return FabricWriting::kAll;
  return absl::InvalidArgumentError(absl::StrCat(kWritesVariable,
                                                 "=1, but libfabric's provider does not write into peers' memory for ",
                                                 names[static_cast<size_t>(worst - access.begin())]));
}

absl::StatusOr<std::unique_ptr<FabricEndpoint>> OpenFabric(const Setup& setup, int most_rails) {
  DISTILL_ASSIGN_OR_RETURN(FabricOptions options, ChooseFabric(setup));
  if (options.max_rails == 0 || (most_rails > 0 && most_rails < options.max_rails)) options.max_rails = most_rails;
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<FabricEndpoint> shared,
                           setup.fabrics->Open(options.device_memory, options.max_rails));
  if (shared != nullptr) return shared;
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<FabricEndpoint> own, FabricEndpoint::Create(options));
  if (most_rails == 0) DISTILL_RETURN_IF_ERROR(setup.fabrics->Share(*own, options.device_memory));
  return own;
}

absl::StatusOr<FabricMeeting> MeetOnFabric(Setup& setup,
                                           const absl::StatusOr<std::unique_ptr<FabricEndpoint>>& endpoint) {
  DISTILL_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      setup.Exchange(endpoint.ok() ? absl::StatusOr<std::string>(Introduce(**endpoint)) : endpoint.status()));
  std::string first;
  FabricMeeting meeting;
  std::vector<std::string> preferences;
  std::vector<FabricWriteAccess> access;
  FabricTraits traits = {"", std::numeric_limits<double>::infinity(), setup.device_memory != nullptr};
  for (size_t rank = 0; rank < all.size(); ++rank) {
    DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> fields, UnpackStrings(all[rank]));
    double share = 0;
    if (fields.size() != 5 || !absl::SimpleAtod(fields[4], &share)) {
      return absl::InternalError("a rank's address, provider, preference, rights and bandwidth came in another form");
    }
    traits.gigabytes_per_second = std::min(traits.gigabytes_per_second, share);
    if (rank == 0) first = traits.provider = fields[0];
    if (fields[0] != first) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the ranks use different fabrics: libfabric's provider is ", first, " on ", setup.NameOf(0), ", ", fields[0],
          " on ", setup.NameOf(static_cast<int>(rank)), " (DISTILL_FABRIC_PROVIDER chooses one)"));
    }
    meeting.addresses.push_back(std::move(fields[1]));
    preferences.push_back(std::move(fields[2]));
    int kind = 0;
    if (!absl::SimpleAtoi(fields[3], &kind) || kind < 0 || kind > static_cast<int>(FabricWriteAccess::kGood)) {
      return absl::InternalError("a rank does not say whether it can write");
    }
    access.push_back(static_cast<FabricWriteAccess>(kind));
  }
  meeting.costs = DefaultCostsOf(traits);
  DISTILL_ASSIGN_OR_RETURN(meeting.writing, ChooseWriting(access, preferences, setup.Names()));
  return meeting;
}

}  // namespace distill
