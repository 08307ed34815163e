#include "libdistill/world/rendezvous.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/handshake.h"
#include "libdistill/world/socket.h"
#include "tests/support/catch.h"
#include "tests/support/connect.h"
#include "tests/support/deadline_in.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::AwaitAllRanks;
using testing::Connect;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::In;
using testing::RunRanks;

absl::Status ExchangeOnce(Rendezvous& meeting, const World& world, const std::string& suffix) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                           meeting.AllGather(absl::StrCat(world.rank, suffix), In(10)));
  DISTILL_RETURN_IF_ERROR(Expect(static_cast<int>(all.size()) == world.world_size, "not everybody's blob"));
  for (int r = 0; r < world.world_size; ++r) {
    DISTILL_RETURN_IF_ERROR(Expect(all[static_cast<size_t>(r)] == absl::StrCat(r, suffix), "a wrong blob"));
  }
  return absl::OkStatus();
}

absl::Status MeetAndExchange(const World& world) {
  DISTILL_ASSIGN_OR_RETURN(const auto meeting, CreateRendezvous(world, In(10)));
  DISTILL_RETURN_IF_ERROR(ExchangeOnce(*meeting, world, ""));
  return ExchangeOnce(*meeting, world, std::string(100'000, 'x'));
}

TEST_CASE("ranks meet and exchange blobs over TCP") {
  for (const int ranks : {1, 2, 5}) {
    CHECK(Failures(RunRanks(ranks, absl::Seconds(20), MeetAndExchange)) == "");
  }
}

TEST_CASE("ranks meet without a secret on one host, and again in the same process") {
  CHECK(Failures(RunRanks(3, absl::Seconds(20), [](World world) {
          world.job_secret.clear();
          absl::Status status = MeetAndExchange(world);
          return status.ok() ? MeetAndExchange(world) : status;
        })) == "");
}

// The variables that srun and torchrun set on a single host whose name others could resolve: no secret among them.
absl::StatusOr<World> WorldFromLauncher(const std::string& launcher, int rank, int port) {
  std::map<std::string, std::string> variables = {
      {"SLURM_PROCID", absl::StrCat(rank)},  {"SLURM_NTASKS", "2"},
      {"SLURM_LOCALID", absl::StrCat(rank)}, {"SLURM_STEP_ID", "0"},
      {"SLURM_STEP_TASKS_PER_NODE", "2"},    {"DISTILL_RENDEZVOUS", absl::StrCat("node0.invalid:", port)}};
  if (launcher == "torchrun") {
    variables = {{"RANK", absl::StrCat(rank)},       {"WORLD_SIZE", "2"},
                 {"LOCAL_RANK", absl::StrCat(rank)}, {"LOCAL_WORLD_SIZE", "2"},
                 {"MASTER_ADDR", "node0.invalid"},   {"MASTER_PORT", absl::StrCat(port - 1)}};
  }
  return ReadWorld([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("without a secret srun's and torchrun's ranks meet on loopback, and rank 0 listens nowhere else") {
  for (const char* launcher : {"slurm", "torchrun"}) {
    CHECK(Failures(RunRanks(2, absl::Seconds(20), [launcher](const World& here) -> absl::Status {
            const std::string port = ParseHostPort(here.rendezvous)->port;
            DISTILL_ASSIGN_OR_RETURN(const World world, WorldFromLauncher(launcher, here.rank, std::stoi(port)));
            DISTILL_RETURN_IF_ERROR(Expect(world.launcher == launcher, world.launcher));
            if (here.rank == 0) return MeetAndExchange(world);
            absl::Status listens = absl::UnavailableError("not tried");
            for (const Deadline deadline = In(10); !listens.ok() && !deadline.Passed();) {
              listens = Connect({"127.0.0.1", port}, In(1)).status();
            }
            DISTILL_RETURN_IF_ERROR(listens);
            // Another address of this host, at which one that listens on every interface answers too.
            DISTILL_RETURN_IF_ERROR(
                Expect(!Connect({"127.0.0.2", port}, In(1)).ok(), "rank 0 listens on another address"));
            return MeetAndExchange(world);
          })) == "");
  }
}

TEST_CASE("the time-out lists the ranks that never came, on rank 0 and on those who did") {
  const auto outcomes = RunRanks(4, absl::Seconds(20), [](const World& world) {
    if (world.rank == 1 || world.rank == 3) return absl::OkStatus();
    return ExpectError(CreateRendezvous(world, In(1)).status(), absl::StatusCode::kDeadlineExceeded,
                       {"waiting for ranks 1, 3 of 4 to join", "rank 0 at 127.0.0.1:"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("without rank 0 the others say where they looked for it") {
  const auto outcomes = RunRanks(2, absl::Seconds(20), [](const World& world) {
    if (world.rank == 0) return absl::OkStatus();
    return ExpectError(CreateRendezvous(world, In(1)).status(), absl::StatusCode::kDeadlineExceeded,
                       {"joins rank 0 at 127.0.0.1:", "Connection refused"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("a rank 0 that dies while the ranks meet is named at once by those who had come") {
  const auto outcomes = RunRanks(3, absl::Seconds(20), [](const World& world) {
    if (world.rank == 2) return absl::OkStatus();  // so that the meeting continues
    if (world.rank == 0) {
      std::thread([] {
        absl::SleepFor(absl::Milliseconds(700));
        kill(getpid(), SIGKILL);
      }).detach();
    }
    return ExpectError(CreateRendezvous(world, In(15)).status(), absl::StatusCode::kUnavailable,
                       {"rank 0 at 127.0.0.1:", "was lost"});
  });
  CHECK(outcomes[0].signal == SIGKILL);
  CHECK(Failures({outcomes[1]}) == "");
  CHECK(outcomes[1].took < absl::Seconds(5));
}

TEST_CASE("a rank with another secret is refused, and not let in") {
  const auto outcomes = RunRanks(2, absl::Seconds(20), [](World world) {
    if (world.rank == 0) {
      return ExpectError(CreateRendezvous(world, In(2)).status(), absl::StatusCode::kDeadlineExceeded,
                         {"waiting for rank 1 of 2"});
    }
    world.job_secret = "another secret";
    return ExpectError(CreateRendezvous(world, In(5)).status(), absl::StatusCode::kPermissionDenied,
                       {"DISTILL_JOB_SECRET", "rank 0 at 127.0.0.1:"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("a rank does not join a rank 0 that only pretends to know the secret") {
  const auto outcomes = RunRanks(2, absl::Seconds(20), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const HostPort place, ParseHostPort(world.rendezvous));
    if (world.rank == 1) {
      return ExpectError(CreateRendezvous(world, In(5)).status(), absl::StatusCode::kPermissionDenied,
                         {"does not know the job secret"});
    }
    DISTILL_ASSIGN_OR_RETURN(const Socket listener, Listen(place));
    Socket joiner;
    for (const Deadline deadline = In(5); !joiner.open() && !deadline.Passed();) joiner = AcceptOne(listener);
    DISTILL_ASSIGN_OR_RETURN(const std::string hello, ReceiveAll(joiner, kHelloBytes, In(5)));
    const Nonces nonces = {*DecodeHello(hello), MakeNonce()};
    DISTILL_RETURN_IF_ERROR(SendAll(joiner, EncodeHello(nonces.root), In(5)));
    DISTILL_RETURN_IF_ERROR(ReceiveAll(joiner, kProofBytes, In(5)).status());
    return SendAll(joiner, EncodeVerdict("a guess", nonces, Verdict::kWelcome), In(5));
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("two processes with one rank, and another world size, are errors that say so") {
  CHECK(Failures(RunRanks(3, absl::Seconds(20), [](World world) {
          if (world.rank == 2) world.rank = 1;
          const absl::Status status = CreateRendezvous(world, In(5)).status();
          return ExpectError(status, absl::StatusCode::kInvalidArgument, {"rank 1"});
        })) == "");
  CHECK(Failures(RunRanks(2, absl::Seconds(20), [](World world) {
          if (world.rank == 1) world.world_size = 3;
          return ExpectError(
              CreateRendezvous(world, In(5)).status(), absl::StatusCode::kInvalidArgument,
              {world.rank == 0 ? "belongs to a job of 3 ranks, this one has 2" : "another number of ranks"});
        })) == "");
}

TEST_CASE("a rank without a thread for its heartbeats is an error on every rank that names it") {
  for (const int lacking : {0, 1}) {
    CHECK(Failures(RunRanks(2, absl::Seconds(20), [lacking](const World& world) -> absl::Status {
            if (world.rank == lacking) testing::RefuseThreads();
            absl::StatusOr<std::unique_ptr<Rendezvous>> meeting = CreateRendezvous(world, In(10));
            const absl::Status status = meeting.ok() ? (*meeting)->AllGather("x", In(10)).status() : meeting.status();
            return ExpectError(status, absl::StatusCode::kResourceExhausted,
                               {absl::StrCat("rank ", lacking, " on "), "no thread for the heartbeats"});
          })) == "");
  }
}

TEST_CASE("a rank that dies in an exchange is named on every other rank") {
  const auto outcomes = RunRanks(3, absl::Seconds(20), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const auto meeting, CreateRendezvous(world, In(10)));
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
    if (world.rank == 2) kill(getpid(), SIGKILL);
    return ExpectError(meeting->AllGather("x", In(10)).status(), absl::StatusCode::kUnavailable,
                       {absl::StrCat("rank 2 on ", world.host, " was lost")});
  });
  CHECK(outcomes[2].signal == SIGKILL);
  CHECK(Failures({outcomes[0], outcomes[1]}) == "");
  CHECK(outcomes[0].took < absl::Seconds(5));
}

TEST_CASE("a rank that leaves in peace is not lost; one that gives up tells why") {
  const auto outcomes = RunRanks(3, absl::Seconds(20), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(auto meeting, CreateRendezvous(world, In(10)));
    if (world.rank == 1) return absl::OkStatus();
    absl::SleepFor(absl::Milliseconds(300));
    if (world.rank == 2) {
      absl::SleepFor(absl::Milliseconds(700));
      meeting->Announce(absl::DataLossError("the disk is gone"));
      return absl::OkStatus();
    }
    DISTILL_RETURN_IF_ERROR(meeting->CheckPeers());
    absl::Status status;
    for (const Deadline deadline = In(5); status.ok() && !deadline.Passed();) status = meeting->CheckPeers();
    return ExpectError(status, absl::StatusCode::kDataLoss, {"rank 2 on ", "the disk is gone"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("a rank that left before it had finished a call is named to all who are in it, and only to them") {
  const auto outcomes = RunRanks(3, absl::Seconds(20), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(auto meeting, CreateRendezvous(world, In(10)));
    if (world.rank == 2) return meeting->NoteFinishedCalls(7), absl::OkStatus();
    absl::SleepFor(absl::Milliseconds(300));
    // Rank 0 hears of it itself and passes it on; what rank 2 has finished is no error.
    for (const Deadline deadline = Deadline::After(absl::Milliseconds(300)); !deadline.Passed();) {
      DISTILL_RETURN_IF_ERROR(meeting->CheckPeersIn(7));
    }
    absl::SleepFor(absl::Milliseconds(500));  // the first to find it tells the others
    return ExpectError(meeting->CheckPeersIn(8), absl::StatusCode::kUnavailable,
                       {absl::StrCat("rank 2 on ", world.host, " has left the job")});
  });
  CHECK(Failures(outcomes) == "");
}

// The rendezvous asks for the last calls under its lock.
TEST_CASE("a rank that waits in a call does not wait for the rendezvous when it asks for news") {
  const auto outcomes = RunRanks(2, absl::Seconds(30), [](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(auto meeting, CreateRendezvous(world, In(10)));
    std::promise<absl::Status> news;
    std::future<absl::Status> heard = news.get_future();
    std::promise<bool> in_time;
    std::thread asks;
    meeting->CompareCalls([&]() -> std::vector<CallView> {
      if (asks.joinable()) return {};
      asks = std::thread([&] { news.set_value(meeting->CheckPeersIn(1)); });
      in_time.set_value(heard.wait_for(std::chrono::seconds(5)) == std::future_status::ready);
      return {};
    });
    meeting->StartHeartbeat(absl::Seconds(60));
    const bool answered = in_time.get_future().get();
    meeting->CompareCalls(nullptr);
    asks.join();
    DISTILL_RETURN_IF_ERROR(Expect(answered, "the question waited for the lock"));
    DISTILL_RETURN_IF_ERROR(heard.get());
    return ExchangeOnce(*meeting, world, "");  // so that neither leaves before the other has asked
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("a meeting place is HOST:PORT") {
  CHECK(ParseHostPort("node0:29501")->port == "29501");
  CHECK(ParseHostPort("[::1]:5")->host == "::1");
  for (const char* wrong : {"", "node0", "node0:", ":5", "node0:0", "node0:65536", "node0:12x", "node0:99999999999"}) {
    CHECK(absl::IsInvalidArgument(ParseHostPort(wrong).status()));
  }
}

}  // namespace
}  // namespace distill
