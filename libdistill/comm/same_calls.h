// Whether ranks make the same calls: every comparison of comm/. The errors are FailedPrecondition, with the names of
// two ranks and both views (world/different_calls.h). Over the fabric nothing is compared in a call: heartbeats bring
// every rank's last calls (call_board.h) to rank 0, which compares them (world/star.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/communicator.h"

namespace distill {

// What ranks show one another of the call that each is about to make, where they gather these first.
struct ShownCall {
  CallSignature signature;
  char context[96] = {};  // where the call was made, such as "step 7"; it need not be the same

  static ShownCall Of(const CommCall& call, const std::string& context = "");
};

// `shown`: every rank's, in their order. Names the first rank that differs from rank 0: the same error on all ranks.
[[nodiscard]] absl::Status CompareCalls(const Communicator& ranks, const std::vector<ShownCall>& shown);

// A rank's call and another's, where each sees the others' alone: the lower rank is named first.
struct RankCall {
  int rank;
  const std::string& name;
  CallSignature signature;
};
[[nodiscard]] absl::Status CompareCalls(const RankCall& mine, const RankCall& theirs);

// What goes ahead of a message between two ranks, so that the receiver takes no other for the one that it expects.
struct MessageHeader {
  int64_t count;
  int64_t dtype;  // a DType

  static MessageHeader Of(const CommCall& call) { return {call.count, static_cast<int64_t>(call.dtype)}; }
};

[[nodiscard]] absl::Status CompareMessages(const MessageHeader& sent, const std::string& sender,
                                           const MessageHeader& expected, const std::string& receiver);

}  // namespace distill
