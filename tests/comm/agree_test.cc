#include "libdistill/comm/agree.h"

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

TEST_CASE("the lowest failing rank's error becomes everybody's") {
  const auto outcomes = RunRanks(4, absl::Seconds(20), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {}));
    DISTILL_RETURN_IF_ERROR(Agree(*comm, absl::OkStatus()));
    const absl::Status mine =
        world.rank == 0 ? absl::OkStatus() : absl::NotFoundError(absl::StrCat("no file ", world.rank));
    const absl::Status agreed = Agree(*comm, world.rank >= 2 ? mine : absl::OkStatus());
    const std::string expected = world.rank == 2 ? "no file 2" : absl::StrCat("rank 2 on ", world.host, ": no file 2");
    DISTILL_RETURN_IF_ERROR(Expect(agreed == absl::NotFoundError(expected), agreed.ToString()));
    return Agree(*comm, absl::OkStatus());  // the communicator is as good as before
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("alone, one's own error is everybody's") {
  const auto comm = CreateAloneCommunicator();
  CHECK(Agree(*comm, absl::OkStatus()).ok());
  CHECK(Agree(*comm, absl::DataLossError("x")) == absl::DataLossError("x"));
  CHECK(RequireSameOnAllRanks(*comm, {{"a", "1"}}).ok());
}

TEST_CASE("the first field that differs is named, with both ranks and both values") {
  const auto outcomes = RunRanks(3, absl::Seconds(20), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto comm, CreateCommunicator(world, {}));
    const std::string rate = world.rank == 2 ? "2e-4" : "1e-4";
    DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(*comm, {{"seed", "42"}, {"bf16", ""}}));
    DISTILL_RETURN_IF_ERROR(ExpectError(
        RequireSameOnAllRanks(*comm, {{"seed", "42"}, {"learning_rate", rate}, {"rank", absl::StrCat(world.rank)}}),
        absl::StatusCode::kFailedPrecondition,
        {absl::StrCat("learning_rate differs between ranks: rank 0 on ", world.host,
                      " has learning_rate = 1e-4, rank 2 on ", world.host, " has learning_rate = 2e-4")}));
    // A field that one rank lacks.
    std::vector<std::pair<std::string, std::string>> fields = {{"seed", "42"}};
    if (world.rank == 1) fields.emplace_back("extra", "1");
    return ExpectError(RequireSameOnAllRanks(*comm, fields), absl::StatusCode::kFailedPrecondition,
                       {"extra differs", "has nothing, rank 1"});
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
