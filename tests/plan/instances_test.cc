#include "libdistill/plan/instances.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/plan/planned_job.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill::instances_of_plans {
namespace {

constexpr char kOne[] =
    "instances:\n"
    "  - {name: mine, gpus: 2, gpu: T4, gpu_memory_gb: 16, bf16_tflops: 0, fp16_tflops: 65, fp32_tflops: 8.1,\n"
    "     network_gbps: 25, dollars_per_hour: 0.5, region: here, date: 2026-01}\n";

TEST_CASE("the program has the machines of bench/instances.yaml, each with GPUs, a peak and a price with its date") {
  const auto instances = ReadInstances("");
  INFO(instances.status());
  REQUIRE(instances.ok());
  for (const char* name : {"g4dn.xlarge", "g5.xlarge", "g5.2xlarge", "g5.12xlarge", "g6.xlarge", "p3.2xlarge",
                           "p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5en.48xlarge"}) {
    INFO(name);
    const auto instance = FindInstance(*instances, name);
    REQUIRE(instance.ok());
    CHECK(instance->fp16_tflops > instance->fp32_tflops);
    CHECK((instance->bf16_tflops == 0 || instance->bf16_tflops == instance->fp16_tflops));
    CHECK(instance->dollars_per_hour > 0);
    CHECK_FALSE(instance->region.empty());
    CHECK(instance->date.size() >= 7);
  }
  CHECK(FindInstance(*instances, "g5.2xlarge")->dollars_per_hour == 1.212);
  CHECK(FindInstance(*instances, "p5.48xlarge")->gpus == 8);
  const absl::Status unknown = FindInstance(*instances, "g5.3xlarge").status();
  CHECK(unknown.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(unknown.message(), "there is no 'g5.3xlarge'; there are g4dn.xlarge, g5.xlarge"));
}

TEST_CASE("a list of one's own is read, and what is wrong with it is named with its line") {
  const testing::TempFolder folder;
  const auto mine = ReadInstances(folder.Write("mine.yaml", kOne));
  REQUIRE(mine.ok());
  CHECK(FindInstance(*mine, "mine")->gpus == 2);
  CHECK(ReadInstances(folder / "none.yaml").status().code() == absl::StatusCode::kNotFound);

  const auto error = [](const char* from, const char* to) {
    const absl::Status status = ParseInstances(absl::StrReplaceAll(kOne, {{from, to}}), "mine.yaml").status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK(error("gpus: 2, ", "") == "mine.yaml:2: missing: gpus");
  CHECK(error("gpus: 2", "gpus: two") == "mine.yaml:2: gpus: expected a whole number, got 'two'");
  CHECK(absl::StrContains(error("gpus: 2", "gpus: 0"), "mine.yaml:2: gpus: must be"));
  CHECK(error("gpus: 2", "gpu: T4") == "mine.yaml:2: gpu is given twice");
  CHECK(error("gpus: 2", "cpus: 2") == "mine.yaml:2: unknown key cpus");
  CHECK(error("instances", "machines") == "mine.yaml: expected 'instances:' with a list of maps");
  CHECK(absl::StrContains(error("2026-01}", "2026-01"), "mine.yaml:"));
  const std::string twice = absl::StrCat(kOne, std::string(kOne).substr(std::string(kOne).find("  - ")));
  CHECK(ParseInstances(twice, "mine.yaml").status().message() == "mine.yaml:4: mine comes twice");
}

TEST_CASE("the job that is planned is as the flags say, as the instance has GPUs, or as it was started") {
  World world;
  world.world_size = 6;
  world.local_size = 3;
  const auto job_of = [&](const PlanFlags& flags) {
    const auto job = JobOf(flags, world);
    REQUIRE(job.ok());
    return std::pair(job->world_size, job->ranks_per_host);
  };
  PlanFlags flags;
  CHECK(job_of(flags) == std::pair(6, 3));
  flags.world_size = 16;
  CHECK(job_of(flags) == std::pair(16, 16));
  flags.ranks_per_host = 8;
  CHECK(job_of(flags) == std::pair(16, 8));
  flags.ranks_per_host.reset();
  flags.instance = "g5.12xlarge";
  CHECK(job_of(flags) == std::pair(16, 4));
  flags.world_size.reset();
  CHECK(job_of(flags) == std::pair(4, 4));
  flags.world_size = 2;
  CHECK(job_of(flags) == std::pair(2, 2));
  flags.world_size = 16;
  flags.ranks_per_host = 8;
  CHECK(absl::StrContains(JobOf(flags, world).status().message(), "a g5.12xlarge has 4 GPU(s)"));
}

TEST_CASE("flags of a plan are refused without one") {
  PlanFlags flags;
  CHECK(CheckPlanFlags(flags).ok());
  flags.world_size = 2;
  CHECK(absl::StrContains(CheckPlanFlags(flags).message(), "go with --plan; a run has the ranks"));
  flags.world_size.reset();
  flags.seconds_per_step = 0.6;
  CHECK(absl::StrContains(CheckPlanFlags(flags).message(), "--seconds_per_step go with --plan"));
  flags.plan = true;
  CHECK(CheckPlanFlags(flags).ok());
}

}  // namespace
}  // namespace distill::instances_of_plans
