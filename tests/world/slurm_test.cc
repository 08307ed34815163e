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

TEST_CASE("a task of an srun step is told from Slurm's own steps, which have a task's variables too") {
  const auto inside = [](const char* step) {
    return InsideSrunStep(Environment([step](const char* name) -> const char* {
      if (std::string(name) == "SLURM_PROCID") return "0";
      return std::string(name) == "SLURM_STEP_ID" ? step : nullptr;
    }));
  };
  CHECK(inside("0"));
  CHECK(inside("12"));
  for (const char* special : {"4294967290", "4294967291", "4294967292", "4294967295"}) CHECK(!inside(special));
  CHECK(!inside(nullptr));
}

TEST_CASE("a step's port is below the ephemeral ports") {
  for (int64_t job : {0, 1, 17, 2'000'000'000}) {
    CHECK(RendezvousPortOfStep(job, 0) >= 20000);
    CHECK(RendezvousPortOfStep(job, 0) < 32768);
  }
}

}  // namespace
}  // namespace distill
