#include "libdistill/comm/setup.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

// The first byte says what follows.
constexpr char kFine = '+';
constexpr char kFailed = '-';

constexpr char kSharedError[] = "libdistill/shared-error";

}  // namespace

absl::Status SharedError(absl::Status error) {
  if (!error.ok()) error.SetPayload(kSharedError, absl::Cord("1"));
  return error;
}

bool IsSharedError(const absl::Status& error) { return error.GetPayload(kSharedError).has_value(); }

Setup Setup::Part(const std::vector<int>& members) const {
  Setup part = *this;
  part.world.world_size = static_cast<int>(members.size());
  part.hosts.clear();
  part.host_ids.clear();
  for (size_t i = 0; i < members.size(); ++i) {
    const size_t member = static_cast<size_t>(members[i]);
    if (members[i] == world.rank) part.world.rank = static_cast<int>(i);
    part.hosts.push_back(hosts[member]);
    part.host_ids.push_back(host_ids[member]);
  }
  return part;
}

std::string Setup::NameOf(int rank) const {
  const size_t r = static_cast<size_t>(rank);
  return absl::StrCat("rank ", job_ranks.empty() ? rank : job_ranks[r], " on ", hosts[r]);
}

std::vector<std::string> Setup::Names() const {
  std::vector<std::string> names;
  for (int rank = 0; rank < world.world_size; ++rank) names.push_back(NameOf(rank));
  return names;
}

absl::StatusOr<std::vector<std::string>> Setup::Exchange(const absl::StatusOr<std::string>& mine) {
  const std::string blob = mine.ok() ? kFine + *mine : kFailed + PackStrings({world.host, EncodeStatus(mine.status())});
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> blobs, rendezvous->AllGather(blob, deadline));
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    if (blobs[rank].empty()) return absl::InternalError(absl::StrCat("rank ", rank, " sent nothing"));
    const char kind = blobs[rank][0];
    blobs[rank].erase(0, 1);
    if (kind == kFine) continue;
    DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> failed, UnpackStrings(blobs[rank]));
    if (failed.size() != 2) return absl::InternalError(absl::StrCat("rank ", rank, " sent no error that can be read"));
    return SharedError(Annotate(DecodeStatus(failed[1]), absl::StrCat("rank ", rank, " on ", failed[0])));
  }
  if (job_ranks.empty()) return blobs;
  std::vector<std::string> of_this_part;
  for (const int rank : job_ranks) of_this_part.push_back(std::move(blobs[static_cast<size_t>(rank)]));
  return of_this_part;
}

absl::Status Setup::ExchangeStatus(const absl::Status& mine) {
  return Exchange(mine.ok() ? absl::StatusOr<std::string>("") : absl::StatusOr<std::string>(mine)).status();
}

}  // namespace distill
