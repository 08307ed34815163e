#include "libdistill/comm/choose_backend.h"

#include "absl/strings/str_cat.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// A rank on each GPU of the list; "" computes on the CPU.
std::vector<RankCard> Ranks(const std::vector<std::string>& gpus, const std::string& backend = "auto") {
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
  CHECK(*ChooseBackend(Ranks({"a", "b", "c"}), true) == "nccl");
  CHECK(*ChooseBackend(Ranks({"a", "b", "c"}), false) == "shm");  // a build without NCCL
  CHECK(*ChooseBackend(Ranks({"a", "b", "a"}), true) == "shm");   // NCCL refuses two ranks on a GPU
  CHECK(*ChooseBackend(Ranks({"", ""}), true) == "shm");
  CHECK(*ChooseBackend(OnHosts(Ranks({"a", "a"})), true) == "fabric");
  CHECK(*ChooseBackend(OnHosts(Ranks({"", ""})), true) == "fabric");
}

TEST_CASE("auto takes two levels exactly when ranks share some of several hosts") {
  const auto on = [](const std::string& hosts, const std::vector<std::string>& gpus, const std::string& backend) {
    std::vector<RankCard> cards = Ranks(gpus, backend);
    for (size_t rank = 0; rank < cards.size(); ++rank) cards[rank].host = cards[rank].host_id = hosts.substr(rank, 1);
    return cards;
  };
  CHECK(*ChooseBackend(on("ABA", {"", "", ""}, "auto"), true) == "shm+fabric");
  CHECK(*ChooseBackend(on("ABC", {"", "", ""}, "auto"), true) == "fabric");
  CHECK(*ChooseBackend(on("ABA", {"a", "a", "b"}, "auto"), true) == "nccl+fabric");
  CHECK(*ChooseBackend(on("ABA", {"a", "a", "a"}, "auto"), true) == "shm+fabric");   // two ranks on a GPU
  CHECK(*ChooseBackend(on("ABA", {"a", "a", "b"}, "auto"), false) == "shm+fabric");  // a build without NCCL
  CHECK(*ChooseBackend(on("AB", {"a", "a"}, "hierarchical"), true) == "nccl+fabric");
  CHECK(*ChooseBackend(on("AB", {"", ""}, "hierarchical"), true) == "shm+fabric");
  std::vector<RankCard> flat = on("ABA", {"", "", ""}, "auto");
  for (RankCard& card : flat) card.algorithm = "flat";
  CHECK(*ChooseBackend(flat, true) == "fabric");
  CHECK_THAT(std::string(ChooseBackend(on("AA", {"", ""}, "hierarchical"), true).status().message()),
             Catch::Contains("comm_backend hierarchical joins several hosts, but all ranks are on A"));
}

TEST_CASE("what the options name is taken, or refused with the reason") {
  for (const std::string backend : {"shm", "fabric", "mpi"}) {
    CHECK(*ChooseBackend(Ranks({"a", "b"}, backend), true) == backend);
    CHECK(*ChooseBackend(Ranks({"", ""}, backend), true) == backend);
  }
  CHECK(*ChooseBackend(Ranks({"a", "b"}, "nccl"), true) == "nccl");
  const auto refusal = [](const std::vector<RankCard>& cards) {
    const absl::Status status = ChooseBackend(cards, true).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK_THAT(refusal(Ranks({"", ""}, "nccl")), Catch::Contains("the ranks compute on the CPU"));
  CHECK_THAT(refusal(Ranks({"a", "b", "a"}, "nccl")), Catch::Contains("rank 0 on node and rank 2 compute on one (a)"));
  CHECK_THAT(refusal(OnHosts(Ranks({"a", "b"}, "nccl"))), Catch::Contains("rank 0 is on node0"));
  CHECK_THAT(refusal(OnHosts(Ranks({"", ""}, "shm"))), Catch::Contains("comm_backend shm joins the ranks of one host"));
}

TEST_CASE("an algorithm that could have no effect under the backend is refused") {
  const auto choose = [](const std::string& backend, const std::string& algorithm) {
    std::vector<RankCard> cards = Ranks({"", "", ""}, backend);
    const std::string hosts = backend == "shm" || backend == "mpi" ? "AAA" : "ABA";
    for (size_t rank = 0; rank < cards.size(); ++rank) {
      cards[rank].algorithm = algorithm;
      cards[rank].host = cards[rank].host_id = hosts.substr(rank, 1);
    }
    return ChooseBackend(cards, true);
  };
  const std::pair<const char*, const char*> refused[] = {
      {"fabric", "hierarchical"}, {"hierarchical", "flat"}, {"shm", "ring"}, {"mpi", "ring"}, {"shm", "hierarchical"}};
  for (const auto& [backend, algorithm] : refused) {
    const absl::Status status = choose(backend, algorithm).status();
    CAPTURE(backend, algorithm, status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()),
               Catch::Contains(absl::StrCat("comm_algorithm ", algorithm, " under comm_backend ", backend)));
  }
  CHECK(*choose("fabric", "ring") == "fabric");
  CHECK(*choose("fabric", "flat") == "fabric");
  CHECK(*choose("hierarchical", "hierarchical") == "shm+fabric");
  CHECK(*choose("hierarchical", "ring") == "shm+fabric");
  CHECK(*choose("auto", "hierarchical") == "shm+fabric");
  CHECK(*choose("auto", "flat") == "fabric");
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
  cards[1].backend = "mpi";
  CHECK_THAT(difference(cards),
             Catch::Contains("comm_backend differs: rank 0 on node has auto, rank 1 on node has mpi"));
}

TEST_CASE("a rank's card survives the way, and another version's is refused") {
  RankCard card = {"node", "node/boot/1", "libdistill 1", "auto", "0000:3b:00.0"};
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
