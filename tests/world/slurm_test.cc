#include "libdistill/world/slurm.h"

#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("the first host of Slurm's lists of nodes") {
  CHECK(*FirstHostOfNodeList("login") == "login");
  CHECK(*FirstHostOfNodeList("a,b") == "a");
  CHECK(*FirstHostOfNodeList("node[03-05,9],gpu1") == "node03");
  CHECK(*FirstHostOfNodeList("node[7]") == "node7");
  CHECK(*FirstHostOfNodeList("rack[1-2]node[08,10].local") == "rack1node08.local");
  for (const char* damaged : {"", ",a", "node[", "node[1", "node[]", "node[-2]"}) {
    CHECK(absl::IsInvalidArgument(FirstHostOfNodeList(damaged).status()));
  }
}

TEST_CASE("the number of tasks on one node of a step") {
  CHECK(*TasksOnNode("4(x2),3", 0) == 4);
  CHECK(*TasksOnNode("4(x2),3", 1) == 4);
  CHECK(*TasksOnNode("4(x2),3", 2) == 3);
  CHECK(*TasksOnNode("8", 0) == 8);
  for (const char* damaged : {"", "4(x2", "4(x),3", "x", "0", "4,"}) CHECK(!TasksOnNode(damaged, 2).ok());
}

TEST_CASE("a step's port is below the ephemeral ports") {
  for (int64_t job : {0, 1, 17, 2'000'000'000}) {
    CHECK(RendezvousPortOfStep(job, 0) >= 20000);
    CHECK(RendezvousPortOfStep(job, 0) < 32768);
  }
}

}  // namespace
}  // namespace distill
