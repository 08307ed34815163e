// Collectives as lists of messages: what one rank sends, receives and adds in a call, and what runs such a list over
// the fabric. recursive_doubling.cc, rabenseifner.cc, direct_exchange.cc and exchange_tree.cc write the lists. Internal
// to comm/.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/comm/buffer_work.h"
#include "libdistill/comm/fabric_credits.h"
#include "libdistill/comm/reduce_op.h"
#include "libdistill/core/dtype.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

// The caller's two buffers, which are one in place, and memory for what is to be added.
enum class ExchangeBuffer : uint8_t { kInput, kResult, kLanding };

// `first` and `count` are in elements everywhere here.
struct ExchangeMessage {
  int peer = 0;
  uint32_t number = 0;  // no two messages that a rank receives in one call have the same
  ExchangeBuffer buffer = ExchangeBuffer::kInput;
  int64_t first = 0;
  int64_t count = 0;           // above 0
  int64_t after_incoming = 0;  // it may start once so many incoming messages have been taken in
  int64_t after_outgoing = 0;  // and so many outgoing ones have left
};

// When the incoming message with this index is taken in:
//   into[result_first ...] = landing[0] op .. op own[own_first ...] op .. op landing[sources - 1]
// with this rank's own data at `own_place` of the order; landing[i] begins at landing_first + i * landing_stride.
struct ExchangeReduction {
  int64_t incoming = 0;
  int64_t after_outgoing = 0;  // not before so many have left
  ExchangeBuffer own = ExchangeBuffer::kInput;
  int64_t own_first = 0;
  int64_t result_first = 0;
  int64_t count = 0;
  int64_t landing_first = 0;
  int64_t landing_stride = 0;
  int sources = 1;
  int own_place = 0;
  bool last = false;  // nothing else is added to these elements: averages are divided now
  ExchangeBuffer into = ExchangeBuffer::kResult;
};

// One rank's part in a call. Messages start and are taken in in the order of the lists, `window` of them at a time.
struct ExchangePlan {
  std::vector<ExchangeMessage> outgoing;
  std::vector<ExchangeMessage> incoming;
  std::vector<ExchangeReduction> reductions;  // in the order of the incoming messages
  int64_t landing = 0;                        // elements
  int64_t window = 8;
};

struct ExchangeShape {
  int rank = 0;
  int ranks = 1;
  int64_t count = 0;      // elements of the whole result; with blocks, of all blocks together
  int64_t chunk = 1;      // elements of the longest message
  bool in_place = false;  // input and result are the same memory
};

// receive = op over ranks of send. The essays are with the code.
ExchangePlan PlanRecursiveDoubling(const ExchangeShape& shape);
ExchangePlan PlanRabenseifner(const ExchangeShape& shape);
ExchangePlan PlanDirectAllReduce(const ExchangeShape& shape);
// The result is this rank's block alone; counts are multiples of the number of ranks.
ExchangePlan PlanDirectReduceScatter(const ExchangeShape& shape);
// This rank's block is in the result already.
ExchangePlan PlanDirectAllGather(const ExchangeShape& shape);

// Runs plans. One call at a time; whoever calls owns the endpoint meanwhile.
class Exchange {
 public:
  struct Region {
    char* data = nullptr;
    const FabricMemory* memory = nullptr;
  };
  struct Call {
    Region input, result, landing;
    DType dtype = DType::kFloat32;
    ReduceOp op = ReduceOp::kSum;
    int ranks = 1;     // what averages are divided by
    uint64_t tag = 0;  // of the message with number 0
    // Where messages go one way: who keeps senders from running ahead. Else null: each rank waits for all others.
    FabricCredits* credits = nullptr;
  };
  // Looked at while waiting, with a rank that is waited for: a deadline, or news of lost ranks. An error ends the call.
  using Check = absl::FunctionRef<absl::Status(int peer, bool receiving)>;

  Exchange(MessageEndpoint* endpoint, BufferWork* work) : endpoint_(endpoint), work_(*work) {}

  // Blocks until all messages have gone out and come in. After an error, withdraw the endpoint before the buffers go,
  // or their registrations.
  [[nodiscard]] absl::Status Run(const ExchangePlan& plan, const Call& call, Check check);

 private:
  absl::StatusOr<bool> Post(const Call& call, const ExchangeMessage& message, bool receive, FabricOperation* operation);
  void Reduce(const ExchangeReduction& reduction, const Call& call);

  MessageEndpoint* const endpoint_;
  BufferWork& work_;
  std::vector<FabricOperation> sends_;  // message m uses entry m % window
  std::vector<FabricOperation> receives_;
  std::vector<const void*> sources_;
};

}  // namespace distill
