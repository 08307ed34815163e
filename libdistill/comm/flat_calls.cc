#include "libdistill/comm/flat_calls.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/fabric_communicator.h"
#include "libdistill/comm/fabric_cut.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

std::vector<int> AllRanks(const Setup& job) {
  std::vector<int> ranks(static_cast<size_t>(job.world.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// In the middle of a job its ranks exchange what they have to say over what is open already: that wait ends as a call's
// does, and no rank has to look at the rendezvous for it.
class RendezvousOver : public PartRendezvous {
 public:
  RendezvousOver(std::shared_ptr<JobCalls> calls, std::vector<int> members, Communicator* comm)
      : PartRendezvous(std::move(calls), std::move(members)), comm_(*comm) {}
  absl::StatusOr<std::vector<std::string>> AllGather(const std::string& blob, const Deadline&) override {
    return GatherTexts(comm_, blob);
  }

 private:
  Communicator& comm_;
};

// Registers memory that stays another's.
class Borrowed : public CommMemory {
 public:
  Borrowed(char* data, int64_t bytes) : CommMemory(data, bytes) {}
};

}  // namespace

// Its memory by address, with what registers it with the second communicator.
struct FlatCalls::Registry {
  std::mutex mutex;  // memory is freed on any thread
  std::unordered_map<const Memory*, std::unique_ptr<CommMemory>> live;
};

class FlatCalls::Memory : public CommMemory {
 public:
  Memory(std::unique_ptr<CommMemory> memory, std::shared_ptr<Registry> registry)
      : CommMemory(memory->data(), memory->bytes()), memory_(std::move(memory)), registry_(std::move(registry)) {}
  ~Memory() override {
    const std::lock_guard<std::mutex> lock(registry_->mutex);
    registry_->live.erase(this);
  }

  // Null where there is no such communicator.
  absl::Status Register(CommBackend* wide) const {
    if (wide == nullptr) return absl::OkStatus();
    DISTILL_ASSIGN_OR_RETURN(registry_->live[this], wide->RegisterToo(std::make_unique<Borrowed>(data(), bytes())));
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<CommMemory> memory_;  // given back once its registrations are gone
  const std::shared_ptr<Registry> registry_;
};

FlatCalls::FlatCalls(Setup job, std::shared_ptr<JobCalls> calls)
    : job_(std::move(job)), calls_(std::move(calls)), registry_(std::make_shared<Registry>()) {}
FlatCalls::~FlatCalls() = default;

absl::StatusOr<std::unique_ptr<FlatCalls>> FlatCalls::Open(const Setup& job, std::shared_ptr<JobCalls> calls,
                                                           size_t rails) {
  std::unique_ptr<FlatCalls> flat(new FlatCalls(job, calls));
  flat->job_.rendezvous = std::make_shared<PartRendezvous>(std::move(calls), AllRanks(job));
  absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint = OpenFabric(flat->job_, /*most_rails=*/1);
  DISTILL_ASSIGN_OR_RETURN(flat->narrow_, FabricCommunicator::Join(flat->job_, std::move(endpoint)));
  flat->narrow_->BecomePart();
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> all, flat->job_.Exchange(absl::StrCat(rails)));
  flat->has_more_rails_ = std::none_of(all.begin(), all.end(), [](const std::string& of_rank) {
    size_t count = 0;
    return !absl::SimpleAtoi(of_rank, &count) || count < 2;
  });
  return flat;
}

absl::Status FlatCalls::OpenWide() {
  Setup setup = job_;
  setup.deadline = Deadline::After(job_.options.timeout);
  setup.rendezvous = std::make_shared<RendezvousOver>(calls_, AllRanks(job_), narrow_.get());
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommBackend> wide, CreateFabricCommunicator(std::move(setup)));
  wide->BecomePart();
  const std::lock_guard<std::mutex> lock(registry_->mutex);
  absl::Status registered;
  for (auto& [memory, registration] : registry_->live) registered.Update(memory->Register(wide.get()));
  DISTILL_RETURN_IF_ERROR(registered);
  wide_ = std::move(wide);
  return absl::OkStatus();
}

absl::Status FlatCalls::Run(const CommCall& call) {
  // A message goes over one rail anyway, and pieces of calls are not shorter than that.
  const bool is_short = call.blocks(job_.world.world_size) * call.bytes() <= kFabricChunkBytes;
  if (IsPair(call.operation) || is_short || !has_more_rails_) return narrow_->Run(call);
  if (wide_ == nullptr) DISTILL_RETURN_IF_ERROR(OpenWide());
  return wide_->Run(call);
}

absl::StatusOr<std::unique_ptr<CommMemory>> FlatCalls::RegisterToo(std::unique_ptr<CommMemory> memory) {
  DISTILL_ASSIGN_OR_RETURN(memory, narrow_->RegisterToo(std::move(memory)));
  if (!has_more_rails_) return memory;
  auto tracked = std::make_unique<Memory>(std::move(memory), registry_);
  const std::unique_lock<std::mutex> lock(registry_->mutex);
  registry_->live.emplace(tracked.get(), nullptr);
  DISTILL_RETURN_IF_ERROR(tracked->Register(wide_.get()));
  return tracked;
}

}  // namespace distill
