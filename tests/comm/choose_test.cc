#include "libdistill/comm/choose_backend.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/field_text.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// A rank on each GPU of the list; "" computes on the CPU.
std::vector<RankCard> Ranks(const std::vector<std::string>& gpus,
                            BackendPreference backend = BackendPreference::kAuto) {
  std::vector<RankCard> cards;
  for (const std::string& gpu : gpus) cards.push_back({"node", "node/boot/1", "libdistill 1", backend, gpu});
  return cards;
}

std::vector<RankCard> OnHosts(std::vector<RankCard> cards) {
  for (size_t rank = 0; rank < cards.size(); ++rank)
    cards[rank].host = cards[rank].host_id = absl::StrCat("node", rank);
  return cards;
}

TEST_CASE("auto takes NCCL exactly when every rank computes on a GPU of its own on one host") {
  CHECK(*ChooseBackend(Ranks({"a", "b", "c"}), true) == ChosenBackend::kNccl);
  CHECK(*ChooseBackend(Ranks({"a", "b", "c"}), false) == ChosenBackend::kShm);  // a build without NCCL
  CHECK(*ChooseBackend(Ranks({"a", "b", "a"}), true) == ChosenBackend::kShm);   // NCCL refuses two ranks on a GPU
  CHECK(*ChooseBackend(Ranks({"", ""}), true) == ChosenBackend::kShm);
  CHECK(*ChooseBackend(OnHosts(Ranks({"a", "a"})), true) == ChosenBackend::kFabric);
  CHECK(*ChooseBackend(OnHosts(Ranks({"", ""})), true) == ChosenBackend::kFabric);
}

TEST_CASE("auto takes two levels exactly when ranks share some of several hosts") {
  const auto on = [](const std::string& hosts, const std::vector<std::string>& gpus, BackendPreference backend) {
    std::vector<RankCard> cards = Ranks(gpus, backend);
    for (size_t rank = 0; rank < cards.size(); ++rank) cards[rank].host = cards[rank].host_id = hosts.substr(rank, 1);
    return cards;
  };
  CHECK(*ChooseBackend(on("ABA", {"", "", ""}, BackendPreference::kAuto), true) == ChosenBackend::kShmAndFabric);
  CHECK(*ChooseBackend(on("ABC", {"", "", ""}, BackendPreference::kAuto), true) == ChosenBackend::kFabric);
  CHECK(*ChooseBackend(on("ABA", {"a", "a", "b"}, BackendPreference::kAuto), true) == ChosenBackend::kNcclAndFabric);
  CHECK(*ChooseBackend(on("ABA", {"a", "a", "a"}, BackendPreference::kAuto), true) ==
        ChosenBackend::kShmAndFabric);  // two ranks on a GPU
  CHECK(*ChooseBackend(on("ABA", {"a", "a", "b"}, BackendPreference::kAuto), false) ==
        ChosenBackend::kShmAndFabric);  // a build without NCCL
  CHECK(*ChooseBackend(on("AB", {"a", "a"}, BackendPreference::kHierarchical), true) == ChosenBackend::kNcclAndFabric);
  CHECK(*ChooseBackend(on("AB", {"", ""}, BackendPreference::kHierarchical), true) == ChosenBackend::kShmAndFabric);
  std::vector<RankCard> flat = on("ABA", {"", "", ""}, BackendPreference::kAuto);
  for (RankCard& card : flat) card.algorithm = AlgorithmPreference::kFlat;
  CHECK(*ChooseBackend(flat, true) == ChosenBackend::kFabric);
  CHECK_THAT(std::string(ChooseBackend(on("AA", {"", ""}, BackendPreference::kHierarchical), true).status().message()),
             Catch::Contains("comm_backend hierarchical joins several hosts, but all ranks are on A"));
}

TEST_CASE("what the options name is taken, or refused with the reason") {
  const std::pair<BackendPreference, ChosenBackend> taken[] = {{BackendPreference::kShm, ChosenBackend::kShm},
                                                               {BackendPreference::kFabric, ChosenBackend::kFabric},
                                                               {BackendPreference::kMpi, ChosenBackend::kMpi}};
  for (const auto& [backend, chosen] : taken) {
    CHECK(*ChooseBackend(Ranks({"a", "b"}, backend), true) == chosen);
    CHECK(*ChooseBackend(Ranks({"", ""}, backend), true) == chosen);
  }
  CHECK(*ChooseBackend(Ranks({"a", "b"}, BackendPreference::kNccl), true) == ChosenBackend::kNccl);
  const auto refusal = [](const std::vector<RankCard>& cards) {
    const absl::Status status = ChooseBackend(cards, true).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK_THAT(refusal(Ranks({"", ""}, BackendPreference::kNccl)), Catch::Contains("the ranks compute on the CPU"));
  CHECK_THAT(refusal(Ranks({"a", "b", "a"}, BackendPreference::kNccl)),
             Catch::Contains("rank 0 on node and rank 2 compute on one (a)"));
  CHECK_THAT(refusal(OnHosts(Ranks({"a", "b"}, BackendPreference::kNccl))), Catch::Contains("rank 0 is on node0"));
  CHECK_THAT(refusal(OnHosts(Ranks({"", ""}, BackendPreference::kShm))),
             Catch::Contains("comm_backend shm joins the ranks of one host"));
}

TEST_CASE("an algorithm that could have no effect under the backend is refused") {
  const auto choose = [](BackendPreference backend, AlgorithmPreference algorithm) {
    std::vector<RankCard> cards = Ranks({"", "", ""}, backend);
    const std::string hosts = backend == BackendPreference::kShm || backend == BackendPreference::kMpi ? "AAA" : "ABA";
    for (size_t rank = 0; rank < cards.size(); ++rank) {
      cards[rank].algorithm = algorithm;
      cards[rank].host = cards[rank].host_id = hosts.substr(rank, 1);
    }
    return ChooseBackend(cards, true);
  };
  const std::pair<BackendPreference, AlgorithmPreference> refused[] = {
      {BackendPreference::kFabric, AlgorithmPreference::kHierarchical},
      {BackendPreference::kHierarchical, AlgorithmPreference::kFlat},
      {BackendPreference::kShm, AlgorithmPreference::kRing},
      {BackendPreference::kMpi, AlgorithmPreference::kRing},
      {BackendPreference::kShm, AlgorithmPreference::kHierarchical}};
  for (const auto& [backend, algorithm] : refused) {
    const absl::Status status = choose(backend, algorithm).status();
    CAPTURE(FieldText(backend), FieldText(algorithm), status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()),
               Catch::Contains(
                   absl::StrCat("comm_algorithm ", FieldText(algorithm), " under comm_backend ", FieldText(backend))));
  }
  CHECK(*choose(BackendPreference::kFabric, AlgorithmPreference::kRing) == ChosenBackend::kFabric);
  CHECK(*choose(BackendPreference::kFabric, AlgorithmPreference::kFlat) == ChosenBackend::kFabric);
  CHECK(*choose(BackendPreference::kHierarchical, AlgorithmPreference::kHierarchical) == ChosenBackend::kShmAndFabric);
  CHECK(*choose(BackendPreference::kHierarchical, AlgorithmPreference::kRing) == ChosenBackend::kShmAndFabric);
  CHECK(*choose(BackendPreference::kAuto, AlgorithmPreference::kHierarchical) == ChosenBackend::kShmAndFabric);
  CHECK(*choose(BackendPreference::kAuto, AlgorithmPreference::kFlat) == ChosenBackend::kFabric);
}

TEST_CASE("ranks that differ in device, build or backend are named") {
  const auto difference = [](const std::vector<RankCard>& cards) {
    const absl::Status status = ChooseBackend(cards, true).status();
    CHECK(absl::IsFailedPrecondition(status));
    return std::string(status.message());
  };
  CHECK_THAT(difference(Ranks({"a", "", "b", ""})),
             Catch::Contains("ranks 0, 2 would compute on a GPU, ranks 1, 3 on the CPU (rank 1 on node)"));
  std::vector<RankCard> cards = Ranks({"", "", ""});
  cards[2].build = "libdistill 2";
  CHECK_THAT(difference(cards), Catch::Contains("libdistill differs: rank 0 on node has libdistill 1, rank 2"));
  cards = Ranks({"", ""});
  cards[1].backend = BackendPreference::kMpi;
  CHECK_THAT(difference(cards),
             Catch::Contains("comm_backend differs: rank 0 on node has auto, rank 1 on node has mpi"));
}

TEST_CASE("a rank's card survives the way, and another version's is refused") {
  RankCard card = {"node", "node/boot/1", "libdistill 1", BackendPreference::kAuto, "0000:3b:00.0"};
  card.cores = {0, 1, 2, 7};
  card.debug = true;
  const absl::StatusOr<RankCard> read = RankCard::Decode(card.Encode());
  REQUIRE(read.ok());
  CHECK(read->debug);
  CHECK(read->Encode() == card.Encode());
  CHECK(absl::IsFailedPrecondition(RankCard::Decode("x").status()));
  CHECK(absl::IsFailedPrecondition(RankCard::Decode("").status()));
}

}  // namespace
}  // namespace distill
