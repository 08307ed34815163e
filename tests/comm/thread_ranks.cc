#include "tests/comm/thread_ranks.h"

#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/setup.h"
#include "libdistill/core/status_macros.h"
#include "tests/support/ranks.h"

namespace distill::testing {
namespace {

// Memory that one thread made is the others' under the same addresses.
class SharedByThreads : public SharedMemorySource {
 public:
  absl::StatusOr<SharedMemory> Create(size_t bytes) override {
    DISTILL_ASSIGN_OR_RETURN(SharedMemory made, SharedMemory::Create(bytes));
    const std::lock_guard<std::mutex> lock(mutex_);
    known_[made.ticket()] = made.Share();
    return made;
  }
  absl::StatusOr<SharedMemory> Map(const std::string& ticket) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(ticket);
    if (found == known_.end()) return absl::NotFoundError(absl::StrCat("no thread made ", ticket));
    return found->second.Share();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, SharedMemory> known_;
};

MadeCommunicator Join(const World& world, const std::shared_ptr<SharedMemorySource>& memory) {
  CommunicatorOptions options;
  options.timeout = absl::Seconds(60);
  const Deadline deadline = Deadline::After(options.timeout);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Rendezvous> rendezvous, CreateRendezvous(world, deadline));
  rendezvous->StartHeartbeat(options.heartbeat_timeout);
  const std::vector<std::string> hosts(static_cast<size_t>(world.world_size), world.host);
  const std::vector<std::string> host_ids(hosts.size(), world.host_id);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateShmCommunicator({.world = world,
                                                             .options = options,
                                                             .deadline = deadline,
                                                             .rendezvous = rendezvous,
                                                             .hosts = hosts,
                                                             .one_host = true,
                                                             .host_ids = host_ids,
                                                             .memory = memory}));
  DISTILL_RETURN_IF_ERROR(comm->Attach(rendezvous, options.timeout, options.abort_grace));
  return comm;
}

}  // namespace

std::string OverThreads(int ranks, const std::function<absl::Status(Communicator&)>& body) {
  const auto memory = std::make_shared<SharedByThreads>();
  const ReservedPort port;
  std::vector<RankOutcome> outcomes(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      RankOutcome& outcome = outcomes[static_cast<size_t>(rank)];
      outcome.rank = rank;
      const MadeCommunicator comm = Join(LocalWorld(rank, ranks, port.number()), memory);
      outcome.status = comm.ok() ? body(**comm) : comm.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return Failures(outcomes);
}

}  // namespace distill::testing
