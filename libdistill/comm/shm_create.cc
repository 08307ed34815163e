// How the ranks of a host come to map one another's memory for a ShmCommunicator.
#include "absl/strings/numbers.h"
#include "libdistill/comm/shm_communicator.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

struct Mapped {
  std::vector<SharedMemory> segments;
  std::vector<ProcessWatch> watches;
};

// Maps every rank's segment. A ticket begins with its process.
absl::Status MapAll(SharedMemorySource& source, const std::vector<std::string>& tickets, int rank, SharedMemory mine,
                    Mapped& mapped) {
  for (size_t r = 0; r < tickets.size(); ++r) {
    if (r == static_cast<size_t>(rank)) {
      mapped.segments.push_back(std::move(mine));
      mapped.watches.emplace_back();
      continue;
    }
    DISTILL_ASSIGN_OR_RETURN(SharedMemory theirs, source.Map(tickets[r]));
    mapped.segments.push_back(std::move(theirs));
    int pid = 0;
    if (!absl::SimpleAtoi(tickets[r].substr(0, tickets[r].find(' ')), &pid)) {
      return absl::InternalError("a ticket without a process");
    }
    absl::StatusOr<ProcessWatch> watch = ProcessWatch::Open(pid);
    if (absl::IsUnimplemented(watch.status())) {
      LogWarning("a killed rank will be noticed by time-out only: this kernel has no pidfd_open");
      watch = ProcessWatch();
    }
    DISTILL_RETURN_IF_ERROR(watch.status());
    mapped.watches.push_back(*std::move(watch));
  }
  return absl::OkStatus();
}

}  // namespace

MadeCommunicator CreateShmCommunicator(Setup setup) {
  absl::StatusOr<SharedMemory> mine = setup.memory->Create(ShmGroup::SegmentBytes(setup.world.world_size));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> tickets,
                           setup.Exchange(mine.ok() ? absl::StatusOr<std::string>(mine->ticket()) : mine.status()));
  Mapped mapped;
  const absl::Status result = MapAll(*setup.memory, tickets, setup.world.rank, *std::move(mine), mapped);
  // Also proves that every rank was alive when it was mapped and watched.
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(result));
  std::vector<char*> segments;
  for (const SharedMemory& segment : mapped.segments) segments.push_back(segment.data());
  ShmGroup group(setup.world.rank, std::move(segments), std::move(mapped.watches), setup.Names());
  return std::make_unique<ShmCommunicator>(std::move(setup), std::move(mapped.segments), std::move(group));
}

}  // namespace distill
