#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/dtype.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/core/vectors.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("a deadline passes after its duration and says what it was waiting for") {
  const Deadline deadline = Deadline::After(absl::Milliseconds(20));
  CHECK_FALSE(deadline.Passed());
  CHECK(deadline.PollMilliseconds() >= 1);
  absl::SleepFor(absl::Milliseconds(25));
  CHECK(deadline.Passed());
  CHECK(deadline.Left() == absl::ZeroDuration());
  const absl::Status error = deadline.Error("waiting for rank 3");
  CHECK(error.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(error.message() == "waiting for rank 3 took longer than 20ms");
}

TEST_CASE("a deadline does not pass during its pause, and has all of its time when that ends") {
  DeadlinePause pause;
  const Deadline deadline = Deadline::After(absl::Milliseconds(20), &pause);
  pause.On();
  absl::SleepFor(absl::Milliseconds(30));
  CHECK_FALSE(deadline.Passed());
  CHECK(deadline.Left() == absl::Milliseconds(20));
  CHECK_FALSE(Deadline::After(absl::Milliseconds(20), &pause).Passed());
  pause.Off();
  CHECK(deadline.Left() > absl::ZeroDuration());
  absl::SleepFor(absl::Milliseconds(30));
  pause.Off();
  CHECK(deadline.Passed());
}

TEST_CASE("a deadline of never does not pass") {
  CHECK_FALSE(Deadline::Never().Passed());
  CHECK(Deadline::Never().PollMilliseconds() == -1);
  CHECK_FALSE(Deadline::After(absl::InfiniteDuration()).Passed());
}

TEST_CASE("annotating keeps the code and leaves OK alone") {
  CHECK(Annotate(absl::OkStatus(), "loading").ok());
  const absl::Status status = Annotate(absl::DataLossError("truncated"), "model.safetensors");
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(status.message() == "model.safetensors: truncated");
}

TEST_CASE("the random sequence is the same on every machine") {
  Random random(42);
  CHECK(random.Next() == 0xbdd732262feb6e95u);  // SplitMix64's published sequence for seed 42
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[random.Below(7)];
  for (int count : counts) CHECK(std::abs(count - 10000) < 500);
  CHECK(Random(42, 1).Next() != Random(42, 2).Next());
}

TEST_CASE("a process names itself by rank and host") {
  SetIdentity({.rank = 3, .world_size = 8, .host = "p4d-17"});
  CHECK(DescribeIdentity() == "rank 3 on p4d-17");
  SetIdentity({});
  CHECK(DescribeIdentity() == "rank 0");
}

TEST_CASE("element sizes follow their names") {
  CHECK(SizeOf(DType::kBFloat16) == 2);
  CHECK(SizeOf(DType::kInt64) == 8);
  CHECK(std::string(NameOf(DType::kFloat16)) == "float16");
}

TEST_CASE("a CPU multiplies bfloat16 by itself where the kernel names such instructions") {
  std::ifstream file("/proc/cpuinfo");
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (VectorsOfThisCpu() != Vectors::kAvx512) text = "";
  const bool expected = absl::StrContains(text, "avx512_bf16") || absl::StrContains(text, "amx_bf16");
  CHECK(CpuMultipliesBf16() == expected);
}

#if defined(__linux__)
TEST_CASE("a thread that yields to the others of its process lowers its own priority alone") {
  const int before = getpriority(PRIO_PROCESS, 0);
  int of_thread = 0;
  auto thread = StartThread("a test", [&] {
    YieldToOtherThreads();
    of_thread = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  });
  REQUIRE(thread.ok());
  thread->join();
  CHECK(of_thread == std::min(before + 10, 19));
  CHECK(getpriority(PRIO_PROCESS, 0) == before);
}
#endif

}  // namespace
}  // namespace distill
