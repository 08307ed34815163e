#include "libdistill/comm/same_calls.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libdistill/world/different_calls.h"

namespace distill {
namespace {

std::string View(const std::string& rank, const CallSignature& signature, absl::string_view context = "") {
  return absl::StrCat(rank, " calls ", Describe(signature), context.empty() ? "" : " (", context,
                      context.empty() ? "" : ")");
}

std::string View(const std::string& rank, const char* verb, const MessageHeader& message) {
  return absl::StrCat(rank, " ", verb, " ", message.count, " ", NameOf(static_cast<DType>(message.dtype)));
}

}  // namespace

ShownCall ShownCall::Of(const CommCall& call, const std::string& context) {
  ShownCall shown;
  shown.signature = call.signature();
  std::memcpy(shown.context, context.data(), std::min(context.size(), sizeof(shown.context) - 1));
  return shown;
}

absl::Status CompareCalls(const Communicator& ranks, const std::vector<ShownCall>& shown) {
  for (size_t rank = 1; rank < shown.size(); ++rank) {
    if (shown[rank].signature == shown[0].signature) continue;
    return DifferentCalls(View(ranks.Describe(0), shown[0].signature, shown[0].context),
                          View(ranks.Describe(static_cast<int>(rank)), shown[rank].signature, shown[rank].context));
  }
  return absl::OkStatus();
}

absl::Status CompareCalls(const RankCall& mine, const RankCall& theirs) {
  if (mine.signature == theirs.signature) return absl::OkStatus();
  const RankCall& first = mine.rank < theirs.rank ? mine : theirs;
  const RankCall& second = mine.rank < theirs.rank ? theirs : mine;
  return DifferentCalls(View(first.name, first.signature), View(second.name, second.signature));
}

absl::Status CompareMessages(const MessageHeader& sent, const std::string& sender, const MessageHeader& expected,
                             const std::string& receiver) {
  if (sent.count == expected.count && sent.dtype == expected.dtype) return absl::OkStatus();
  return DifferentCalls(View(sender, "sends", sent), View(receiver, "receives", expected));
}

}  // namespace distill
