#include "libdistill/comm/choose_backend.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/join_server.h"
#include "libdistill/world/own_cores.h"

namespace distill {
namespace {

std::string Describe(const std::vector<RankCard>& cards, size_t rank) {
  return absl::StrCat("rank ", rank, " on ", cards[rank].host);
}

template <class T>
absl::Status RequireSame(const std::vector<RankCard>& cards, const char* what, T RankCard::*field) {
  for (size_t rank = 1; rank < cards.size(); ++rank) {
    if (cards[rank].*field == cards[0].*field) continue;
    return absl::FailedPreconditionError(absl::StrCat(what, " differs: ", Describe(cards, 0), " has ",
                                                      FieldText(cards[0].*field), ", ", Describe(cards, rank), " has ",
                                                      FieldText(cards[rank].*field)));
  }
  return absl::OkStatus();
}

absl::Status RequireOneKindOfDevice(const std::vector<RankCard>& cards) {
  std::vector<int> with_gpu;
  std::vector<int> without;
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    (cards[rank].gpu.empty() ? without : with_gpu).push_back(static_cast<int>(rank));
  }
  if (with_gpu.empty() || without.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("device differs: ", DescribeRanks(with_gpu), " would compute on a GPU, ", DescribeRanks(without),
                   " on the CPU (", Describe(cards, static_cast<size_t>(without[0])),
                   "): give every rank device: cpu, or start ranks only where there are GPUs enough"));
}

// Two ranks of one host on one GPU, which NCCL does not take.
std::optional<std::pair<size_t, size_t>> FindSharedGpu(const std::vector<RankCard>& cards) {
  for (size_t a = 0; a < cards.size(); ++a) {
    for (size_t b = a + 1; b < cards.size(); ++b) {
      if (cards[a].host_id == cards[b].host_id && cards[a].gpu == cards[b].gpu) return std::pair(a, b);
    }
  }
  return std::nullopt;
}

absl::Status CheckNccl(const std::vector<RankCard>& cards) {
  if (cards[0].gpu.empty()) {
    return absl::InvalidArgumentError(
        "comm_backend nccl joins GPUs, but the ranks compute on the CPU: use auto or shm");
  }
  if (const auto pair = FindSharedGpu(cards)) {
    return absl::InvalidArgumentError(absl::StrCat("comm_backend nccl wants a GPU for each rank, but ",
                                                   Describe(cards, pair->first), " and rank ", pair->second,
                                                   " compute on one (", cards[pair->first].gpu, "): use auto or shm"));
  }
  return absl::OkStatus();
}

bool SharesSomeHost(const std::vector<RankCard>& cards) {
  std::set<std::string> hosts;
  for (const RankCard& card : cards) hosts.insert(card.host_id);
  return hosts.size() < cards.size();
}

bool CanUseNccl(const std::vector<RankCard>& cards, bool has_nccl) { return has_nccl && CheckNccl(cards).ok(); }

ChosenBackend TwoLevels(const std::vector<RankCard>& cards, bool has_nccl) {
  return CanUseNccl(cards, has_nccl) ? ChosenBackend::kNcclAndFabric : ChosenBackend::kShmAndFabric;
}

// Two preferences of which one would have no effect.
absl::Status CheckPreferences(BackendPreference backend, AlgorithmPreference algorithm) {
  if (backend == BackendPreference::kAuto || algorithm == AlgorithmPreference::kAuto) return absl::OkStatus();
  const bool fabric = backend == BackendPreference::kFabric, levels = backend == BackendPreference::kHierarchical;
  const std::string both =
      absl::StrCat("comm_algorithm ", FieldText(algorithm), " under comm_backend ", FieldText(backend), ": ");
  if (levels && algorithm == AlgorithmPreference::kFlat) {
    return absl::InvalidArgumentError(
        absl::StrCat(both, "two levels and none; use comm_backend fabric, or another algorithm"));
  }
  if (fabric && algorithm == AlgorithmPreference::kHierarchical) {
    return absl::InvalidArgumentError(
        absl::StrCat(both, "the fabric alone has one level; use comm_backend auto or hierarchical"));
  }
  if (fabric || levels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      both, "it decides over the fabric and in two levels alone; use comm_backend auto, or comm_algorithm auto"));
}

ChosenBackend ChooseFreely(const std::vector<RankCard>& cards, bool has_nccl) {
  if (ShareOneHost(cards)) return CanUseNccl(cards, has_nccl) ? ChosenBackend::kNccl : ChosenBackend::kShm;
  const bool levels = SharesSomeHost(cards) && cards[0].algorithm != AlgorithmPreference::kFlat;
  return levels ? TwoLevels(cards, has_nccl) : ChosenBackend::kFabric;
}

absl::Status RequireOneHost(const std::vector<RankCard>& cards) {
  if (ShareOneHost(cards)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("comm_backend ", FieldText(cards[0].backend),
                                                 " joins the ranks of one host, but rank 0 is on ", cards[0].host,
                                                 " and others are elsewhere: use auto or fabric"));
}

// Of ranks that ask for the same.
absl::StatusOr<ChosenBackend> Choose(const std::vector<RankCard>& cards, bool has_nccl) {
  switch (cards[0].backend) {
    case BackendPreference::kAuto:
      break;
    case BackendPreference::kShm:
      DISTILL_RETURN_IF_ERROR(RequireOneHost(cards));
      return ChosenBackend::kShm;
    case BackendPreference::kFabric:
      return ChosenBackend::kFabric;
    case BackendPreference::kHierarchical:
      if (!ShareOneHost(cards)) return TwoLevels(cards, has_nccl);
      return absl::InvalidArgumentError(absl::StrCat(
          "comm_backend hierarchical joins several hosts, but all ranks are on ", cards[0].host, ": use auto or shm"));
    case BackendPreference::kMpi:
      return ChosenBackend::kMpi;
    case BackendPreference::kNccl:
      DISTILL_RETURN_IF_ERROR(RequireOneHost(cards));
      if (has_nccl) DISTILL_RETURN_IF_ERROR(CheckNccl(cards));
      return ChosenBackend::kNccl;
  }
  return ChooseFreely(cards, has_nccl);
}

}  // namespace

std::string RankCard::Encode() const {
  return PackStrings({host, host_id, build, FieldText(backend), gpu, FieldText(algorithm), costs, debug ? "debug" : "",
                      FormatCores(cores)});
}

absl::StatusOr<RankCard> RankCard::Decode(const std::string& bytes) {
  const absl::StatusOr<std::vector<std::string>> fields = UnpackStrings(bytes);
  RankCard card;
  if (!fields.ok() || fields->size() != 9 || !ParseField((*fields)[3], card.backend) ||
      !ParseField((*fields)[5], card.algorithm)) {
    return absl::FailedPreconditionError("it runs another version of libdistill");
  }
  card.host = (*fields)[0];
  card.host_id = (*fields)[1];
  card.build = (*fields)[2];
  card.gpu = (*fields)[4];
  card.costs = (*fields)[6];
  card.debug = !(*fields)[7].empty();
  card.cores = ParseCores((*fields)[8]);
  return card;
}

bool ShareOneHost(const std::vector<RankCard>& cards) {
  return std::all_of(cards.begin(), cards.end(),
                     [&](const RankCard& card) { return card.host_id == cards[0].host_id; });
}

absl::StatusOr<ChosenBackend> ChooseBackend(const std::vector<RankCard>& cards, bool has_nccl) {
  DISTILL_RETURN_IF_ERROR(RequireSame(cards, "libdistill", &RankCard::build));
  DISTILL_RETURN_IF_ERROR(RequireSame(cards, "comm_backend", &RankCard::backend));
  DISTILL_RETURN_IF_ERROR(RequireSame(cards, "comm_algorithm", &RankCard::algorithm));
  DISTILL_RETURN_IF_ERROR(RequireOneKindOfDevice(cards));
  DISTILL_RETURN_IF_ERROR(CheckPreferences(cards[0].backend, cards[0].algorithm));
  return Choose(cards, has_nccl);
}

}  // namespace distill
