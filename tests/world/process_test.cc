#include "libdistill/world/process.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "tests/support/catch.h"

namespace distill {
namespace {

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Page faults of a step that takes 8 blocks of 4 MiB and frees them.
int64_t FaultsOfStep() {
  constexpr size_t kBytes = 4 << 20;
  rusage before = {}, after = {};
  getrusage(RUSAGE_SELF, &before);
  {
    std::unique_ptr<char[]> blocks[8];
    for (auto& block : blocks) {
      block.reset(new char[kBytes]);
      std::memset(block.get(), 1, kBytes);
    }
  }
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST_CASE("what a step frees the next one takes again without the kernel") {
  const pid_t child = fork();
  if (child == 0) {
    PrepareProcess();
    FaultsOfStep();
    _exit(FaultsOfStep() < 64 ? 0 : 1);  // of 8192 pages
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
#endif

}  // namespace
}  // namespace distill
