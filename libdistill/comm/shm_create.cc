// How the ranks of a host come to map one another's memory: for the group, for Allocate and for Split.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/shm_communicator.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// What a rank sends about its segment: a ticket, or nothing when there was no memory for one.
constexpr size_t kTicketBytes = 96;

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

absl::StatusOr<std::unique_ptr<CommMemory>> ShmCommunicator::DoAllocate(int64_t bytes, Placement) {
  absl::StatusOr<SharedMemory> mine = seed_.memory->Create(static_cast<size_t>(bytes));
  std::string ticket = mine.ok() ? mine->ticket() : "";
  ticket.resize(kTicketBytes);
  std::string tickets(kTicketBytes * static_cast<size_t>(world_size()), '\0');
  DISTILL_RETURN_IF_ERROR(Execute({.operation = CommOperation::kAllGather,
                                   .input = ticket.data(),
                                   .output = tickets.data(),
                                   .count = kTicketBytes}));
  DISTILL_RETURN_IF_ERROR(mine.status());
  const auto ticket_of = [&](int r) { return tickets.data() + kTicketBytes * static_cast<size_t>(r); };
  for (int r = 0; r < world_size(); ++r) {
    if (*ticket_of(r) == '\0')
      return absl::ResourceExhaustedError(absl::StrCat(Describe(r), " has not that much memory"));
  }
  std::vector<SharedMemory> segments(static_cast<size_t>(world_size()));
  absl::Status mapped;
  for (int r = 0; r < world_size() && mapped.ok(); ++r) {
    absl::StatusOr<SharedMemory> segment = r == rank() ? std::move(mine) : seed_.memory->Map(ticket_of(r));
    mapped = segment.status();
    if (mapped.ok()) segments[static_cast<size_t>(r)] = *std::move(segment);
  }
  // A rank that cannot map the others' memory keeps its own until they have mapped it: its error stays the only one.
  DISTILL_RETURN_IF_ERROR(Execute({.operation = CommOperation::kBarrier}));
  DISTILL_RETURN_IF_ERROR(mapped);
  return ShmRegions::Add(regions_, std::move(segments));
}

absl::StatusOr<std::unique_ptr<Communicator>> ShmCommunicator::DoSplit(const SplitPart& part) {
  return SplitFrom(*this, seed_, part.members, part.rank, [](Setup setup) -> MadeCommunicator {
    return setup.world.world_size == 1 ? CreateAloneBackend() : CreateShmCommunicator(std::move(setup));
  });
}

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
