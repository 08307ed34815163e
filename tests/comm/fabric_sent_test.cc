// What a rank hands to libfabric where blocks are written into the next rank's memory: as many writes as there are
// chunks of finished blocks, one note a call, and the key of each region once.
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/fabric_tags.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/join.h"
#include "tests/comm/watch_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::Failures;
using testing::RunRanks;

// What this rank hands to libfabric.
struct Counts {
  int writes = 0, chunks = 0, notes = 0, keys = 0;
  bool operator==(const Counts&) const = default;
};
Counts counts;
fi_ops_rma rma_ops, real_rma_ops;
fi_ops_tagged tagged_ops, real_tagged_ops;

ssize_t CountWrite(fid_ep* endpoint, const void* data, size_t bytes, void* descriptor, uint64_t notice, fi_addr_t peer,
                   uint64_t address, uint64_t key, void* context) {
  const ssize_t rc = real_rma_ops.writedata(endpoint, data, bytes, descriptor, notice, peer, address, key, context);
  if (rc == 0) ++counts.writes;
  return rc;
}

ssize_t CountMessage(fid_ep* endpoint, const void* data, size_t bytes, void* descriptor, fi_addr_t peer, uint64_t tag,
                     void* context) {
  const ssize_t rc = real_tagged_ops.send(endpoint, data, bytes, descriptor, peer, tag, context);
  if (rc != 0) return rc;
  if (bytes >= 1024) {
    ++counts.chunks;
  } else if (tag == FabricKeyTag(tag)) {
    ++counts.keys;
  } else if (tag == FabricNoteTag(tag)) {
    ++counts.notes;
  }
  return rc;
}

void Count(fid_ep& endpoint) {
  real_rma_ops = rma_ops = *endpoint.rma;
  rma_ops.writedata = &CountWrite;
  endpoint.rma = &rma_ops;
  real_tagged_ops = tagged_ops = *endpoint.tagged;
  tagged_ops.send = &CountMessage;
  endpoint.tagged = &tagged_ops;
}

absl::Status ExpectSent(const std::string& what, const Counts& expected) {
  const Counts sent = std::exchange(counts, Counts());
  return Expect(sent == expected, absl::StrCat(what, ": ", sent.writes, " writes, ", sent.chunks, " messages, ",
                                               sent.notes, " notes, ", sent.keys, " keys"));
}

// Two ranks exchange blocks of 1 MiB, four chunks each.
TEST_CASE("blocks are written where the receiver's result is registered, and its key travels once") {
  const auto outcomes = RunRanks(2, absl::Seconds(60), [](const World& world) -> absl::Status {
    setenv("DISTILL_FABRIC_WRITES", "1", 1);
    DISTILL_RETURN_IF_ERROR(testing::WatchedFabric::Watch({.on_endpoint = &Count}));
    DISTILL_ASSIGN_OR_RETURN(const auto comm, testing::Join(world, {.backend = BackendPreference::kFabric,
                                                                    .algorithm = AlgorithmPreference::kRing}));
    constexpr int64_t kTwoBlocks = 2 << 20;
    DISTILL_ASSIGN_OR_RETURN(const auto first, comm->Allocate(3 * kTwoBlocks));
    DISTILL_ASSIGN_OR_RETURN(const auto second, comm->Allocate(3 * kTwoBlocks));
    std::vector<char> plain(kTwoBlocks);
    const auto sum = [&](char* data) { return comm->AllReduce(data, data, kTwoBlocks, DType::kUInt8, ReduceOp::kSum); };
    counts = Counts();
    DISTILL_RETURN_IF_ERROR(sum(first->data()));
    DISTILL_RETURN_IF_ERROR(ExpectSent("the first call", {.writes = 4, .chunks = 4, .notes = 1, .keys = 1}));
    DISTILL_RETURN_IF_ERROR(sum(first->data() + kTwoBlocks + 1 + world.rank));
    DISTILL_RETURN_IF_ERROR(ExpectSent("another part of the memory", {.writes = 4, .chunks = 4, .notes = 1}));
    DISTILL_RETURN_IF_ERROR(sum(second->data()));
    DISTILL_RETURN_IF_ERROR(ExpectSent("other memory", {.writes = 4, .chunks = 4, .notes = 1, .keys = 1}));
    DISTILL_RETURN_IF_ERROR(sum(first->data()));
    DISTILL_RETURN_IF_ERROR(ExpectSent("the first memory again", {.writes = 4, .chunks = 4, .notes = 1}));
    DISTILL_RETURN_IF_ERROR(sum(world.rank == 0 ? plain.data() : first->data()));
    const Counts to_registered = {.writes = 4, .chunks = 4, .notes = 1};
    const Counts to_plain = {.chunks = 8, .notes = 1};
    DISTILL_RETURN_IF_ERROR(ExpectSent("plain memory on rank 0", world.rank == 0 ? to_registered : to_plain));
    char* all = second->data();
    DISTILL_RETURN_IF_ERROR(comm->AllGather(plain.data(), all, kTwoBlocks / 2, DType::kUInt8));
    return ExpectSent("an all-gather", {.writes = 4, .notes = 1});
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
