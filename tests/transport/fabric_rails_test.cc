#include "libdistill/transport/fabric_rails.h"

#include <vector>

#include "tests/support/catch.h"

namespace distill {
namespace {

using Rails = std::vector<std::vector<size_t>>;

FabricCard Card(const std::string& host, const std::vector<std::vector<std::string>>& rails) {
  FabricCard card = {host, {}};
  for (const std::vector<std::string>& rail : rails) card.rails.push_back({rail[0], rail[1], "address of " + rail[1]});
  return card;
}

TEST_CASE("networks that every rank is on are rails, in the order of rank 0, whatever each calls first") {
  const FabricCard a = Card("a", {{"n0", "10.0.0.1"}, {"n1", "10.0.1.1"}, {"n2", "10.0.2.1"}});
  const FabricCard b = Card("b", {{"n0", "10.0.0.2"}, {"n2", "10.0.2.2"}, {"n1", "10.0.1.2"}});
  CHECK(CommonRails({a, b}) == Rails{{0, 1, 2}, {0, 2, 1}});
  CHECK(CommonRails({a}) == Rails{{0, 1, 2}});
}

TEST_CASE("a network that some rank is not on is no rail, but for the one over which the ranks met") {
  const FabricCard a = Card("a", {{"n0", "10.0.0.1"}, {"n1", "10.0.1.1"}, {"n2", "10.0.2.1"}});
  const FabricCard b = Card("b", {{"n9", "10.0.9.2"}, {"n2", "10.0.2.2"}});
  CHECK(CommonRails({a, b}) == Rails{{0, 2}, {0, 1}});
  CHECK(CommonRails({b, a}) == Rails{{0, 1}, {0, 2}});
}

TEST_CASE("a network inside each host is no rail between them") {
  const FabricCard a = Card("a", {{"n0", "10.0.0.1"}, {"bridge", "172.17.0.1"}});
  const FabricCard b = Card("b", {{"n0", "10.0.0.2"}, {"bridge", "172.17.0.1"}});
  CHECK(CommonRails({a, b}) == Rails{{0}, {0}});
  CHECK(CommonRails({a, a}) == Rails{{0, 1}, {0, 1}});  // two ranks of one host
}

TEST_CASE("NICs that have no location are rails by their order") {
  const FabricCard a = Card("a", {{"efa 0", ""}, {"efa 1", ""}});
  const FabricCard b = Card("b", {{"efa 0", ""}, {"efa 1", ""}, {"efa 2", ""}});
  CHECK(CommonRails({a, b}) == Rails{{0, 1}, {0, 1}});
}

TEST_CASE("a card survives its encoding, and what is none is refused") {
  const FabricCard card = Card("a", {{"n0", "10.0.0.1"}, {"n1", "10.0.1.1"}});
  const absl::StatusOr<FabricCard> decoded = FabricCard::Decode(card.Encode());
  REQUIRE(decoded.ok());
  CHECK(decoded->Encode() == card.Encode());
  for (const std::string& bad : {std::string(), std::string("short"), Card("a", {}).Encode()}) {
    CHECK(absl::IsFailedPrecondition(FabricCard::Decode(bad).status()));
  }
}

TEST_CASE("an address of another length, on whichever rail in use, is an error that names its rank") {
  const FabricCard a = Card("a", {{"n0", "10.0.0.1"}, {"n1", "10.0.1.1"}, {"n2", "10.0.2.1"}});
  const std::vector<std::string> names = {"rank 0 on a", "rank 1 on b"};
  for (const size_t rail : {size_t{0}, size_t{2}}) {
    FabricCard b = Card("b", {{"n0", "10.0.0.2"}, {"n9", "10.0.9.123"}, {"n2", "10.0.2.2"}});
    REQUIRE(CheckAddresses({a, b}, CommonRails({a, b}), 0, names).ok());
    REQUIRE(CheckAddresses({a, b}, CommonRails({a, b}), 1, names).ok());
    b.rails[rail].address.resize(3);
    const absl::Status status = CheckAddresses({a, b}, CommonRails({a, b}), 0, names);
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains("the fabric address of rank 1 on b has 3 bytes"));
  }
}

}  // namespace
}  // namespace distill
