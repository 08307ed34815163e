#include "libdistill/comm/setup.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

// The first byte says what follows.
constexpr char kFine = '+';
constexpr char kFailed = '-';

}  // namespace

absl::StatusOr<std::vector<std::string>> Setup::Exchange(const absl::StatusOr<std::string>& mine) {
  const std::string blob = mine.ok() ? kFine + *mine : kFailed + EncodeStatus(mine.status());
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> blobs, rendezvous->AllGather(blob, deadline));
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    if (blobs[rank].empty()) return absl::InternalError(absl::StrCat("rank ", rank, " sent nothing"));
    const char kind = blobs[rank][0];
    blobs[rank].erase(0, 1);
    if (kind == kFine) continue;
    const std::string host = rank < hosts.size() ? absl::StrCat(" on ", hosts[rank]) : "";
    return Annotate(DecodeStatus(blobs[rank]), absl::StrCat("rank ", rank, host));
  }
  return blobs;
}

absl::Status Setup::ExchangeStatus(const absl::Status& mine) {
  return Exchange(mine.ok() ? absl::StatusOr<std::string>("") : absl::StatusOr<std::string>(mine)).status();
}

}  // namespace distill
