#include "libdistill/world/rendezvous.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/descriptors.h"
#include "libdistill/world/handshake.h"
#include "libdistill/world/socket.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::AwaitAllRanks;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

Deadline In(int seconds) { return Deadline::After(absl::Seconds(seconds)); }

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

// Descriptors that are open lie below `limit`.
void LimitDescriptors(rlim_t soft, rlim_t hard) {
  const rlimit limit = {soft, hard};
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_CASE("a rank 0 that may open too few files tells every rank before they meet, and what to do") {
  const auto outcomes = RunRanks(6, absl::Seconds(20), [](const World& world) -> absl::Status {
    if (world.rank == 0) {
      const rlim_t few = static_cast<rlim_t>(OpenDescriptors()) + 8;
      LimitDescriptors(few, few);
    }
    return ExpectError(CreateRendezvous(world, In(10)).status(), absl::StatusCode::kResourceExhausted,
                       {absl::StrCat("rank 0 on ", world.host, " needs "), "descriptors to meet the other 5 ranks",
                        "a process may have ", "ulimit -n", "LimitNOFILE="});
  });
  CHECK(Failures(outcomes) == "");
}

// Waits until rank 0 serves strangers, and then opens files until there are no descriptors left.
void UseUpDescriptors(const HostPort& place) {
  for (const Deadline deadline = In(10); !deadline.Passed();) {
    const absl::StatusOr<Socket> stranger = Connect(place, In(1));
    if (!stranger.ok() || !SendAll(*stranger, EncodeHello(MakeNonce()), In(1)).ok()) continue;
    if (ReceiveAll(*stranger, kHelloBytes, In(1)).ok()) break;
  }
  while (dup(0) >= 0) continue;
}

TEST_CASE("a rank 0 that has no descriptors left while the ranks come tells every rank, and does not spin") {
  const auto outcomes = RunRanks(6, absl::Seconds(20), [](const World& world) -> absl::Status {
    if (world.rank != 0) {
      DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
      return ExpectError(CreateRendezvous(world, In(10)).status(), absl::StatusCode::kResourceExhausted,
                         {"rank 0 cannot accept", "Too many open files", "ulimit -Hn"});
    }
    const rlim_t few = static_cast<rlim_t>(OpenDescriptors()) + 60;
    LimitDescriptors(few, few);
    std::thread thread([&world] {
      UseUpDescriptors(*ParseHostPort(world.rendezvous));
      AwaitAllRanks().IgnoreError();
    });
    const absl::Status status = CreateRendezvous(world, In(10)).status();
    thread.join();
    rusage used = {};
    getrusage(RUSAGE_SELF, &used);
    DISTILL_RETURN_IF_ERROR(Expect(used.ru_utime.tv_sec + used.ru_stime.tv_sec < 2, "rank 0 spins"));
    return ExpectError(status, absl::StatusCode::kResourceExhausted,
                       {"rank 0 cannot accept rank number ", "Too many open files", "ulimit -Hn"});
  });
  CHECK(Failures(outcomes) == "");
}

TEST_CASE("the limit of open files is raised as far as a meeting needs, and no further") {
  CHECK(Failures(RunRanks(1, absl::Seconds(20), [](const World& world) -> absl::Status {
          LimitDescriptors(64, 4096);
          DISTILL_RETURN_IF_ERROR(PrepareDescriptors(512, world.host).status());
          rlimit limit = {};
          getrlimit(RLIMIT_NOFILE, &limit);
          const auto open = static_cast<rlim_t>(OpenDescriptors());
          DISTILL_RETURN_IF_ERROR(Expect(limit.rlim_cur >= open + 511 + kMostGuests && limit.rlim_cur <= open + 700,
                                         absl::StrCat("a limit of ", limit.rlim_cur)));
          return ExpectError(PrepareDescriptors(5000, "host-a").status(), absl::StatusCode::kResourceExhausted,
                             {"rank 0 on host-a needs 50", "the other 4999 ranks", "ulimit -Hn, is 4096"});
        })) == "");
}

TEST_CASE("a hundred ranks that join together beside idle strangers all get in") {
  constexpr int kRanks = 100;
  CHECK(Failures(RunRanks(kRanks + 1, absl::Seconds(60), [](World world) -> absl::Status {
          const HostPort place = *ParseHostPort(world.rendezvous);
          std::vector<Socket> idle;
          if (world.rank == kRanks) {
            for (const Deadline deadline = In(10); !Connect(place, In(1)).ok() && !deadline.Passed();) continue;
            while (idle.size() < 100) {
              DISTILL_ASSIGN_OR_RETURN(Socket socket, Connect(place, In(5)));
              idle.push_back(std::move(socket));
            }
            return AwaitAllRanks();
          }
          world.world_size = kRanks;
          if (world.rank != 0) {
            DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
            return CreateRendezvous(world, In(30)).status();
          }
          std::thread thread([] { AwaitAllRanks().IgnoreError(); });
          const absl::Status status = CreateRendezvous(world, In(30)).status();
          thread.join();
          return status;
        })) == "");
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

// Knocks on rank 0's door in every way that is not the job's, while the job's ranks join.
absl::Status Besiege(const HostPort& place) {
  std::vector<Socket> idle;
  Socket first;
  for (const Deadline deadline = In(5); !first.open() && !deadline.Passed();) {
    absl::StatusOr<Socket> socket = Connect(place, In(1));
    if (socket.ok()) first = *std::move(socket);
  }
  DISTILL_RETURN_IF_ERROR(Expect(first.open(), "rank 0 never listened"));
  for (int i = 0; i < 300; ++i) {
    absl::StatusOr<Socket> socket = Connect(place, In(1));
    if (!socket.ok()) break;
    const std::string greeting = i % 3 == 0   ? std::string(5000, static_cast<char>(i))
                                 : i % 3 == 1 ? EncodeHello(MakeNonce()) + std::string(kProofBytes, 'x')
                                              : std::string();
    SendAll(*socket, greeting, In(1)).IgnoreError();
    idle.push_back(*std::move(socket));
  }
  absl::SleepFor(absl::Milliseconds(300));
  return Expect(idle.size() == 300, absl::StrCat("only ", idle.size(), " strangers came through"));
}

TEST_CASE("garbage, wrong proofs and hundreds of idle connections do not keep the ranks from meeting") {
  const auto outcomes = RunRanks(4, absl::Seconds(30), [](World world) -> absl::Status {
    if (world.rank == 3) return Besiege(*ParseHostPort(world.rendezvous));
    world.world_size = 3;
    if (world.rank != 0) absl::SleepFor(absl::Milliseconds(150 * world.rank));
    return MeetAndExchange(world);
  });
  CHECK(Failures(outcomes) == "");
}

// What a stranger who has heard a rank join says afterwards: the same bytes.
absl::Status Replay(const HostPort& place, const std::string& secret, absl::string_view hello_nonce) {
  DISTILL_ASSIGN_OR_RETURN(const Socket socket, Connect(place, In(5)));
  const Nonces heard = {std::string(hello_nonce), std::string(32, 'r')};
  DISTILL_RETURN_IF_ERROR(SendAll(socket, EncodeHello(heard.joiner), In(1)));
  DISTILL_RETURN_IF_ERROR(ReceiveAll(socket, kHelloBytes, In(5)).status());
  // True to the secret, but made for another nonce of rank 0's.
  DISTILL_RETURN_IF_ERROR(SendAll(socket, EncodeProof(secret, heard, {1, 2, "stranger"}), In(1)));
  DISTILL_ASSIGN_OR_RETURN(const std::string verdict, ReceiveAll(socket, kVerdictBytes, In(5)));
  DISTILL_RETURN_IF_ERROR(
      Expect(verdict[0] == static_cast<char>(Verdict::kWrongSecret), "a replayed proof was believed"));
  return Expect(!ReceiveAll(socket, 1, In(5)).ok(), "the connection of a replay stays open");
}

TEST_CASE("a thousand idle connections and a replay do not keep a rank out, and take no more room than is set aside") {
  const auto outcomes = RunRanks(3, absl::Seconds(30), [](World world) -> absl::Status {
    const HostPort place = *ParseHostPort(world.rendezvous);
    if (world.rank != 2) {
      world.world_size = 2;
      if (world.rank == 1) absl::SleepFor(absl::Seconds(2));  // the strangers come first
      return MeetAndExchange(world);
    }
    for (const Deadline deadline = In(5); !Connect(place, In(1)).ok() && !deadline.Passed();) continue;
    std::vector<Socket> idle;
    for (int i = 0; i < 1000; ++i) {
      DISTILL_ASSIGN_OR_RETURN(Socket socket, Connect(place, In(5)));
      idle.push_back(std::move(socket));
    }
    DISTILL_RETURN_IF_ERROR(Replay(place, world.job_secret, std::string(32, 'n')));
    const auto open = std::count_if(idle.begin(), idle.end(), [](const Socket& s) { return StillOpen(s); });
    DISTILL_RETURN_IF_ERROR(Expect(open <= 64, absl::StrCat(open, " strangers were kept waiting")));
    absl::SleepFor(absl::Seconds(3));  // the ranks have met
    return Expect(!Connect(place, In(1)).ok(), "the port is still open to strangers after the meeting");
  });
  CHECK(Failures(outcomes) == "");
  CHECK(outcomes[1].took < absl::Seconds(10));
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
