// What describes a call: which buffers it has, what the ranks must pass alike, and how a difference is told.
#include "libdistill/comm/call.h"

#include "libdistill/comm/create.h"
#include "libdistill/comm/same_calls.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr CommOperation kOperations[] = {
    CommOperation::kAllReduce, CommOperation::kReduceScatter, CommOperation::kAllGather,
    CommOperation::kBroadcast, CommOperation::kReduce,        CommOperation::kAllToAll,
    CommOperation::kBarrier,   CommOperation::kSend,          CommOperation::kReceive};

CommCall Call(CommOperation operation) {
  return {.operation = operation, .count = 10, .dtype = DType::kFloat32, .op = ReduceOp::kMax, .root = 2, .peer = 1};
}

TEST_CASE("a call's buffers hold one block, or one for each rank") {
  const int expected[][2] = {{1, 1}, {4, 1}, {1, 4}, {1, 1}, {1, 1}, {4, 4}, {1, 1}, {1, 1}, {1, 1}};
  for (const CommOperation operation : kOperations) {
    CAPTURE(NameOf(operation));
    const CommCall call = Call(operation);
    const auto& [input, output] = expected[static_cast<size_t>(operation)];
    CHECK(call.input_blocks(4) == input);
    CHECK(call.output_blocks(4) == output);
    CHECK(call.blocks(4) == std::max(input, output));
  }
  CHECK(Call(CommOperation::kAllReduce).bytes() == 40);
}

TEST_CASE("a signature says what the ranks must agree on, and nothing else") {
  const char* expected[] = {"all-reduce of 10 float32 (max)",
                            "reduce-scatter of 10 float32 (max)",
                            "all-gather of 10 float32",
                            "broadcast of 10 float32 from rank 2",
                            "reduce of 10 float32 (max) to rank 2",
                            "all-to-all of 10 float32",
                            "barrier"};
  for (size_t i = 0; i < std::size(expected); ++i) {
    const CommCall call = Call(kOperations[i]);
    CHECK(Describe(call.signature()) == expected[i]);
    CommCall other = call;
    other.op = ReduceOp::kMin;
    CHECK((other.signature() == call.signature()) == !Reduces(call.operation));
    other = call;
    other.root = 0;
    CHECK((other.signature() == call.signature()) == !HasRoot(call.operation));
    other = call;
    other.count = 11;
    CHECK((other.signature() == call.signature()) == (call.operation == CommOperation::kBarrier));
    other = call;
    other.number = 5;
    other.input = &other;
    CHECK(other.signature() == call.signature());
    CHECK(FingerprintOf(other.signature()) == FingerprintOf(call.signature()));
  }
}

TEST_CASE("two ranks that compare their calls tell the same, the lower rank first") {
  const std::string a = "rank 0 on a", b = "rank 1 on b";
  const CallSignature barrier = Call(CommOperation::kBarrier).signature();
  const CallSignature gather = Call(CommOperation::kAllGather).signature();
  CHECK(CompareCalls({0, a, gather}, {1, b, gather}).ok());
  const absl::Status told = CompareCalls({0, a, gather}, {1, b, barrier});
  CHECK(told == absl::FailedPreconditionError("ranks do not make the same calls: rank 0 on a calls all-gather of 10 "
                                              "float32, rank 1 on b calls barrier"));
  CHECK(CompareCalls({1, b, barrier}, {0, a, gather}) == told);
}

TEST_CASE("a message of another count or type than is expected is told by both views") {
  CHECK(CompareMessages({3, 0}, "rank 0", {3, 0}, "rank 1").ok());
  const absl::Status count = CompareMessages({3, 0}, "rank 0", {4, 0}, "rank 1");
  CHECK(count == absl::FailedPreconditionError(
                     "ranks do not make the same calls: rank 0 sends 3 float32, rank 1 receives 4 float32"));
  CHECK(!CompareMessages({3, static_cast<int64_t>(DType::kInt32)}, "rank 0", {3, 0}, "rank 1").ok());
}

TEST_CASE("a message to a rank that is none is refused with the rank that was asked for") {
  float x = 0;
  for (const int peer : {-1, 0, 7}) {
    CAPTURE(peer);
    const absl::Status sent = CreateAloneCommunicator()->Send(&x, 1, DType::kFloat32, peer);
    CHECK(absl::IsInvalidArgument(sent));
    CHECK_THAT(std::string(sent.message()),
               Catch::Contains("send to rank " + std::to_string(peer) + " number 1 over "));
    CHECK_THAT(std::string(sent.message()), Catch::Contains("is no other rank than this one"));
  }
}

}  // namespace
}  // namespace distill
