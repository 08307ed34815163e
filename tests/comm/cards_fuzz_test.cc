// What ranks tell one another when they make a communicator, with a few mutations each, in the hands of every parser of
// it: an error or a value, never a crash (the address sanitizer's build runs this too).
#include "absl/strings/match.h"
#include "libdistill/comm/choose_backend.h"
#include "libdistill/comm/device_path.h"
#include "libdistill/comm/tuning.h"
#include "libdistill/transport/fabric_rails.h"
#include "libdistill/transport/shared_memory.h"
#include "tests/support/catch.h"
#include "tests/support/mutate.h"

namespace distill {
namespace {

using testing::Mutate;

// What is read again says the same.
template <typename Card>
void Parse(const std::string& bytes) {
  const absl::StatusOr<Card> card = Card::Decode(bytes);
  if (!card.ok()) return;
  const absl::StatusOr<Card> again = Card::Decode(card->Encode());
  REQUIRE(again.ok());
  REQUIRE(again->Encode() == card->Encode());
}

void ParseAll(const std::string& bytes) {
  Parse<RankCard>(bytes);
  Parse<FabricCard>(bytes);
  Parse<DeviceAccess>(bytes);
  Parse<CostTable>(bytes);
  if (const auto card = FabricCard::Decode(bytes); card.ok()) {
    REQUIRE(CommonRails({*card, *card})[0][0] == 0);
  }
  if (const auto table = CostTable::Decode(bytes); table.ok()) {
    const CommAlgorithm chosen =
        CommTuning(*table, AlgorithmPreference::kAuto).Choose(CommOperation::kAllReduce, 1 << 20, {6, 3, 2});
    REQUIRE(CanRun(chosen, CommOperation::kAllReduce, {6, 3, 2}));
  }
}

TEST_CASE("cards and tables with a few mutations each are read or refused") {
  std::mt19937_64 random(5);
  RankCard rank = {"node", "node/boot/1", "libdistill 1", BackendPreference::kAuto, "0000:3b:00.0"};
  rank.costs = CostTable().Encode();
  const DeviceAccess access = {DeviceAccess::Kind::kCopies, "efa", "it would copy", "1"};
  const std::vector<std::string> corpus = {
      rank.Encode(),
      FabricCard{"host-a", {{"10.77.0.0/24", "10.77.0.1", std::string(16, '\2')}}}.Encode(),
      FabricCard{"host-b", {{"a", "", "xyz"}, {"b", "c", std::string(300, 'x')}}}.Encode(),
      access.Encode(),
      CostTable().Encode(),
      CostTable{{0, 0, 1e300}, {1e-300, 3, 5}, 7}.Encode(),
  };
  for (const std::string& whole : corpus) ParseAll(whole);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = corpus[random() % corpus.size()];
    for (uint64_t changes = 1 + random() % 5; changes > 0; --changes) Mutate(random, corpus, bytes);
    ParseAll(bytes);
  }
}

TEST_CASE("tickets of shared memory with a few mutations each map that memory, or nothing") {
  std::mt19937_64 random(6);
  const absl::StatusOr<SharedMemory> mine = SharedMemory::Create(8192);
  REQUIRE(mine.ok());
  const std::string ticket = mine->ticket();
  const std::string process = ticket.substr(0, ticket.find(' ') + 1);
  const std::vector<std::string> corpus = {ticket, process + "-1 8192 0", process + "99999999999 1 1", ticket + " 1",
                                           process + "0 0 0"};
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = corpus[random() % corpus.size()];
    for (uint64_t changes = random() % 4; changes > 0; --changes) Mutate(random, corpus, bytes);
    // Of this process alone: others' descriptors are not to be opened for a test.
    if (!absl::StartsWith(bytes, process)) bytes = process + bytes;
    const absl::StatusOr<SharedMemory> mapped = SharedMemory::Map(bytes);
    if (!mapped.ok()) continue;
    REQUIRE(mapped->bytes() == 8192);
    mine->data()[0] = static_cast<char>(round);
    REQUIRE(mapped->data()[0] == static_cast<char>(round));
  }
}

}  // namespace
}  // namespace distill
