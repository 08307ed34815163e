#include "libdistill/world/world.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include "libdistill/world/host_id.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using Variables = std::map<std::string, std::string>;

absl::StatusOr<World> Read(const Variables& variables) {
  return ReadWorld([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables With(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const Variables kDistillrun = {{"DISTILL_RANK", "1"},
                               {"DISTILL_WORLD_SIZE", "2"},
                               {"DISTILL_LOCAL_RANK", "1"},
                               {"DISTILL_LOCAL_SIZE", "2"},
                               {"DISTILL_RENDEZVOUS", "127.0.0.1:4000"}};
const Variables kMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29500"},
                             {"DISTILL_JOB_SECRET", "s"}};
const Variables kSlurm = {{"SLURM_PROCID", "2"},      {"SLURM_NTASKS", "3"},
                          {"SLURM_LOCALID", "0"},     {"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_ID", "17"},     {"SLURM_STEP_NODELIST", "gpu[08-09]"},
                          {"SLURM_NODEID", "1"},      {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                          {"DISTILL_JOB_SECRET", "s"}};

struct Place {
  Variables variables;
  std::string launcher;
  int rank, world_size, local_rank, local_size;
  std::string rendezvous;  // "*": any
};

TEST_CASE("each launcher's variables say who this process is") {
  const std::vector<Place> places = {
      {{}, "alone", 0, 1, 0, 1, ""},
      {kDistillrun, "distillrun", 1, 2, 1, 2, "127.0.0.1:4000"},
      {kMpi, "mpi", 3, 4, 1, 2, ""},
      {kTorchrun, "torchrun", 5, 8, 1, 4, "node0:29501"},
      {kSlurm, "slurm", 2, 3, 0, 1, "*"},
      // The order of precedence: an outer job of one rank says nothing, and each of these starts the next one.
      {With(kDistillrun, {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_SIZE", "1"}}), "distillrun", 1, 2, 1, 2,
       "127.0.0.1:4000"},
      {With(kMpi, {{"RANK", "3"}, {"WORLD_SIZE", "4"}}), "mpi", 3, 4, 1, 2, ""},
      {With(kSlurm, kMpi), "mpi", 3, 4, 1, 2, ""},
      {With(With(kSlurm, kTorchrun), {{"TORCHELASTIC_RUN_ID", "1"}}), "torchrun", 5, 8, 1, 4, "node0:29501"},
      // DISTILL_RENDEZVOUS goes before MASTER_ADDR, but MPI before both.
      {With(kTorchrun, {{"DISTILL_RENDEZVOUS", "a:1"}}), "torchrun", 5, 8, 1, 4, "a:1"},
      {With(kMpi, {{"DISTILL_RENDEZVOUS", "a:1"}}), "mpi", 3, 4, 1, 2, ""},
      {With(kSlurm, {{"MASTER_ADDR", "m"}, {"MASTER_PORT", "7"}}), "slurm", 2, 3, 0, 1, "m:8"},
      // One process a pod.
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "p"}, {"MASTER_PORT", "1"}, {"DISTILL_JOB_SECRET", "s"}},
       "torchrun",
       1,
       2,
       0,
       1,
       "p:2"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}},
       "torchrun",
       0,
       2,
       0,
       2,
       "127.0.0.1:2"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, "torchrun", 0, 1, 0, 1, ""},
      // In an allocation, but in no srun step: the batch script, an interactive shell.
      {{{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}, "alone", 0, 1, 0, 1, ""},
      {With(kSlurm, {{"SLURM_STEP_ID", "4294967291"}}), "alone", 0, 1, 0, 1, ""},
  };
  for (const Place& place : places) {
    const absl::StatusOr<World> world = Read(place.variables);
    INFO(world.status());
    REQUIRE(world.ok());
    CHECK(world->launcher == place.launcher);
    CHECK(world->rank == place.rank);
    CHECK(world->world_size == place.world_size);
    CHECK(world->local_rank == place.local_rank);
    CHECK(world->local_size == place.local_size);
    if (place.rendezvous != "*") CHECK(world->rendezvous == place.rendezvous);
    CHECK(!world->host.empty());
  }
}

TEST_CASE("variables of two launchers that differ are refused, with both") {
  const std::vector<std::pair<Variables, std::string>> cases = {
      {With(kMpi, kDistillrun), "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 (mpi)"},
      {With(kTorchrun, kMpi), "RANK=5 WORLD_SIZE=8 (torchrun)"},
      {With(kTorchrun, {{"OMPI_COMM_WORLD_RANK", "0"},
                        {"OMPI_COMM_WORLD_SIZE", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}),
       "RANK=5 WORLD_SIZE=8 (torchrun)"},
      {With(kSlurm, kTorchrun), "SLURM_PROCID=2 SLURM_NTASKS=3 (slurm)"},
      // One rank alone, where more were asked for.
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}, "PMI_RANK=1 PMI_SIZE=4"},
      {{{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}}, "unset MASTER_ADDR MASTER_PORT"},
  };
  for (const auto& [variables, named] : cases) {
    const absl::StatusOr<World> world = Read(variables);
    REQUIRE(world.status().code() == absl::StatusCode::kInvalidArgument);
    INFO(world.status());
    CHECK(world.status().message().find(named) != absl::string_view::npos);
  }
}

TEST_CASE("an srun step meets on its first host, at a port that all ranks compute alike") {
  const absl::StatusOr<World> world = Read(kSlurm);
  REQUIRE(world.ok());
  CHECK(world->rendezvous.substr(0, 6) == "gpu08:");
  CHECK(Read(With(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}}))->rendezvous == world->rendezvous);
  CHECK(Read(With(kSlurm, {{"SLURM_STEP_ID", "1"}}))->rendezvous != world->rendezvous);
}

struct Mistake {
  Variables variables;
  std::string named;
};

TEST_CASE("an error names the variable that is wrong") {
  Variables no_size = kDistillrun;
  no_size.erase("DISTILL_WORLD_SIZE");
  Variables no_port = kTorchrun;
  no_port.erase("MASTER_PORT");
  Variables nowhere = kDistillrun;
  nowhere.erase("DISTILL_RENDEZVOUS");
  const std::vector<Mistake> mistakes = {
      {no_size, "DISTILL_WORLD_SIZE is missing"},
      {no_port, "MASTER_PORT is missing"},
      {nowhere, "DISTILL_RENDEZVOUS"},
      {With(kDistillrun, {{"DISTILL_RANK", "one"}}), "DISTILL_RANK is 'one', no number"},
      {With(kDistillrun, {{"DISTILL_RANK", "1x"}}), "DISTILL_RANK is '1x', no number"},
      {With(kDistillrun, {{"DISTILL_RANK", "2"}}), "DISTILL_RANK is 2, out of range"},
      {With(kDistillrun, {{"DISTILL_RANK", "-1"}}), "DISTILL_RANK is -1, out of range"},
      {With(kDistillrun, {{"DISTILL_LOCAL_SIZE", "0"}}), "DISTILL_LOCAL_SIZE is 0, out of range"},
      {With(kMpi, {{"OMPI_COMM_WORLD_SIZE", "99999999999999999999"}}), "OMPI_COMM_WORLD_SIZE"},
      {{{"RANK", "1"}}, "WORLD_SIZE is missing"},
      {With(kTorchrun, {{"MASTER_PORT", "65535"}}), "MASTER_PORT is 65535, out of range"},
      {With(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}), "SLURM_STEP_TASKS_PER_NODE"},
      {With(kSlurm, {{"SLURM_LOCALID", "2"}}), "SLURM_LOCALID is 2"},
      {With(kSlurm, {{"SLURM_STEP_NODELIST", "gpu["}}), "gpu["},
  };
  for (const Mistake& mistake : mistakes) {
    const absl::Status status = Read(mistake.variables).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(mistake.named));
  }
}

TEST_CASE("a job over several hosts is refused without a secret, one on a single host is not") {
  Variables open = kTorchrun;
  open.erase("DISTILL_JOB_SECRET");
  const absl::Status status = Read(open).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("DISTILL_JOB_SECRET"));
  CHECK(Read(kDistillrun).ok());
  CHECK(Read(kMpi).ok());
  CHECK(Read(kTorchrun)->job_secret == "s");
}

TEST_CASE("the secret comes out of a file, without its newline") {
  const std::string path = std::string("world_test_secret.") + std::to_string(getpid());
  std::ofstream(path) << "hush hush\n";
  Variables variables = kTorchrun;
  variables.erase("DISTILL_JOB_SECRET");
  variables["DISTILL_JOB_SECRET_FILE"] = path;
  CHECK(Read(variables)->job_secret == "hush hush");
  std::ofstream(path) << "\n";
  CHECK_THAT(std::string(Read(variables).status().message()), Catch::Contains("is empty"));
  std::remove(path.c_str());
  CHECK_THAT(std::string(Read(variables).status().message()), Catch::Contains(path + ", which cannot be read"));
}

TEST_CASE("the host id tells machines, boots and namespaces apart, and can be overridden") {
  CHECK(Read({})->host_id == HostId());
  CHECK_THAT(HostId(), Catch::StartsWith(HostName() + "/"));
  CHECK(HostId().size() > HostName().size() + 36);  // a boot id has 36 characters
  CHECK(Read({{"DISTILL_HOST_ID", "pretended"}})->host_id == "pretended");
}

// What HostId says in a child, behind `unshare`d namespaces that its children get; empty when that is not allowed.
std::string HostIdBehind(int namespaces) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER | namespaces) != 0) _exit(1);
    const pid_t inner = fork();
    const std::string id = inner == 0 ? HostId() : "";
    if (inner == 0 && write(ends[1], id.data(), id.size()) < 0) _exit(1);
    if (inner > 0) waitpid(inner, nullptr, 0);
    _exit(inner < 0);
  }
  close(ends[1]);
  std::string id(1024, '\0');
  id.resize(static_cast<size_t>(std::max<ssize_t>(0, read(ends[0], id.data(), id.size()))));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return id;
}

TEST_CASE("containers that share a host's network, but not its processes, are two hosts", "[namespace]") {
  const std::string same = HostIdBehind(0);
  const std::string other = HostIdBehind(CLONE_NEWPID);
  if (same.empty() || other.empty()) {
    WARN("skipped: this system lets no process make a process namespace");
    return;
  }
  CHECK(same == HostId());
  CHECK(other != HostId());
  CHECK_THAT(other, Catch::StartsWith(HostId().substr(0, HostId().rfind('/'))));
}

}  // namespace
}  // namespace distill
