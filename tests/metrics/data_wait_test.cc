#include "libdistill/metrics/data_wait.h"

#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("waits are summed for each record, and in all") {
  DataWaits waits;
  waits.Add({1.5, 0});
  waits.Add({0.25, 1});
  CHECK(waits.Take() == 1.75);
  CHECK(waits.Take() == 0);
  waits.Add({0.5, 1});
  CHECK(waits.Take() == 0.5);
  CHECK(waits.total_seconds() == 2.25);
}

TEST_CASE("a warning comes when more than a twentieth of the time went by, names the rank, and is not repeated soon") {
  DataWaits waits;
  waits.Add({60, 0});  // of the first step
  CHECK_FALSE(waits.Judge(70).has_value());
  waits.Add({0.5, 0});
  CHECK_FALSE(waits.Judge(10).has_value());  // just 5 %
  for (int record = 0; record < 4; ++record) {
    waits.Add({0.5, 1});
    waits.Add({0.25, 2});
    CHECK_FALSE(waits.Judge(2).has_value());  // too short to tell
  }
  waits.Add({0.25, 1});
  const auto warning = waits.Judge(2);
  REQUIRE(warning.has_value());
  CHECK(warning->rank == 1);
  CHECK(warning->share == Approx(0.325));
  CHECK(TextOf(*warning, "rank 1 on host")
            .find("32% of the last 10 s of training went by waiting for data, mostly "
                  "that of rank 1 on host: raise dataloader_num_workers") == 0);
  waits.Add({300, 1});
  CHECK_FALSE(waits.Judge(590).has_value());
  waits.Add({9, 1});
  CHECK(waits.Judge(10).has_value());
}

}  // namespace
}  // namespace distill
