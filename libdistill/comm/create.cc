#include "libdistill/comm/create.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libdistill/comm/choose_backend.h"
#include "libdistill/comm/gpu.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/tuning_file.h"
#include "libdistill/comm/tuning_text.h"
#include "libdistill/core/description.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/build_id.h"
#include "libdistill/world/crash_signals.h"
#include "libdistill/world/own_cores.h"

namespace distill {
namespace {

absl::StatusOr<std::string> EncodeCard(const Setup& setup, const std::string& gpu) {
  const World& world = setup.world;
  DISTILL_ASSIGN_OR_RETURN(const CommTuning tuning, ReadTuning(setup.options, world.rank == 0));
  RankCard card = {world.host, world.host_id, BuildId(), setup.options.backend, gpu, tuning.preference()};
  if (tuning.was_given()) card.costs = tuning.table().Encode();
  card.debug = setup.options.debug;
  card.cores = AllowedCores();
  return card.Encode();
}

bool AsksForDebug() {
  const char* value = std::getenv("DISTILL_COMM_DEBUG");
  return value != nullptr && absl::string_view(value) == "1";
}

// Where the ranks of this one's host work: on their GPUs, or on the cores that the trainer binds them to.
void NoteNeighbours(Setup& setup, const std::vector<RankCard>& cards) {
  const size_t self = static_cast<size_t>(setup.world.rank);
  std::vector<RankCores> all;
  for (const RankCard& card : cards) all.push_back({card.host_id, card.cores});
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].host_id != cards[self].host_id) continue;
    if (rank == self) setup.self = setup.neighbours.size();
    const OwnCores own = DivideCores(all, static_cast<int>(rank), "");
    setup.neighbours.push_back({cards[rank].gpu, own.cores.empty() ? cards[rank].cores : own.cores});
  }
}

// Every rank learns who the others are, and comes to the same choice.
absl::StatusOr<ChosenBackend> Introduce(Setup& setup) {
  const absl::Status& own_error = setup.options.own_error;
  absl::StatusOr<std::string> mine = own_error.ok() ? GpuAddress(setup.options.device_index) : own_error;
  if (mine.ok()) mine = EncodeCard(setup, *mine);
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> all, setup.Exchange(mine));
  std::vector<RankCard> cards;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    absl::StatusOr<RankCard> card = RankCard::Decode(all[rank]);
    if (!card.ok()) return Annotate(card.status(), absl::StrCat("rank ", rank));
    setup.hosts.push_back(card->host);
    setup.options.debug = setup.options.debug || card->debug;
    setup.host_ids.push_back(card->host_id);
    cards.push_back(*std::move(card));
  }
  setup.one_host = ShareOneHost(cards);
  NoteNeighbours(setup, cards);
  setup.tuning = CommTuning(cards[0].algorithm);
  if (!cards[0].costs.empty()) {
    DISTILL_ASSIGN_OR_RETURN(const CostTable table, CostTable::Decode(cards[0].costs));
    setup.tuning = CommTuning(table, cards[0].algorithm);
  }
  absl::StatusOr<ChosenBackend> chosen = ChooseBackend(cards, HasNccl());
  return chosen.ok() ? chosen : SharedError(chosen.status());
}

std::string DescribeChoice(ChosenBackend backend, const CommBackend& made, const HostLayout& hosts,
                           AlgorithmPreference preferred) {
  if (made.tuning() == nullptr) {
    const bool asked = preferred != AlgorithmPreference::kAuto;
    return asked ? absl::StrCat("; comm_algorithm ", FieldText(preferred), " decides nothing here") : "";
  }
  const bool levels = backend == ChosenBackend::kShmAndFabric || backend == ChosenBackend::kNcclAndFabric;
  return absl::StrCat("; ", DescribeAlgorithms(*made.flat_tuning(), levels ? made.tuning() : nullptr, LayoutOf(hosts)));
}

MadeCommunicator Make(ChosenBackend backend, Setup setup) {
  const bool gpus = backend == ChosenBackend::kNcclAndFabric;
  if (gpus || backend == ChosenBackend::kShmAndFabric) return CreateHierarchicalCommunicator(std::move(setup), gpus);
  constexpr MadeCommunicator (*kMakers[])(Setup) = {&CreateShmCommunicator, &CreateFabricCommunicator,
                                                    &CreateMpiCommunicator,
                                                    &CreateNcclCommunicator};  // in the order of ChosenBackend
  return kMakers[static_cast<size_t>(backend)](std::move(setup));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateCommunicator(const World& world,
                                                                 const CommunicatorOptions& options) {
  absl::Status own_error = options.own_error;
  own_error.Update(CheckOptions(options));
  own_error.Update(ReadTuning(options, /*with_table=*/false).status());
  TakeBackCrashSignals();
  if (world.world_size == 1 && !own_error.ok()) return own_error;
  if (world.world_size == 1 && options.backend != BackendPreference::kNccl) return CreateAloneCommunicator();
  // A time-out that is no good must not keep the rank from telling the others so.
  const Deadline deadline = Deadline::After(own_error.ok() ? options.timeout : CommunicatorOptions().timeout);
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<Rendezvous> rendezvous, CreateRendezvous(world, deadline));
  rendezvous->StartHeartbeat(own_error.ok() ? options.heartbeat_timeout : CommunicatorOptions().heartbeat_timeout);
  rendezvous->busy()->set_limit(own_error.ok() ? options.phase_timeout : CommunicatorOptions().phase_timeout);
  Setup setup = {world, options, deadline, rendezvous, {}, false};
  setup.options.own_error = own_error;
  setup.options.debug = options.debug || AsksForDebug();
  DISTILL_ASSIGN_OR_RETURN(const ChosenBackend backend, Introduce(setup));
  const HostLayout hosts(setup.host_ids);
  const AlgorithmPreference preference = setup.tuning.preference();
  const bool debug = setup.options.debug;
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommBackend> made, Make(backend, std::move(setup)));
  DISTILL_RETURN_IF_ERROR(made->Attach(rendezvous, options.timeout, options.abort_grace));
  made->WatchOutsideOfCalls();
  if (debug) made->CompareCallsFirst();
  if (world.rank == 0) {
    LogInfo(absl::StrCat("collectives: ", world.world_size, " ranks over ", made->backend(), " (comm_backend ",
                         FieldText(options.backend), "), met over ", rendezvous->kind(),
                         DescribeChoice(backend, *made, hosts, preference),
                         debug ? "; each call is compared over all ranks" : ""));
  }
  return made;
}

}  // namespace distill
