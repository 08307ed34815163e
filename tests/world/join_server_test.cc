// Who comes to rank 0's door while the ranks meet: all of them, strangers, and more than there is room for.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/descriptors.h"
#include "libdistill/world/handshake.h"
#include "libdistill/world/join_server.h"
#include "libdistill/world/rendezvous.h"
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

absl::Status MeetAndExchange(const World& world, int seconds = 10) {
  DISTILL_ASSIGN_OR_RETURN(const auto meeting, CreateRendezvous(world, In(seconds)));
  return meeting->AllGather("x", In(seconds)).status();
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

TEST_CASE("a rank 0 that has no descriptors left while the ranks come tells every rank, and does not spin",
          "[no_descriptors]") {
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

TEST_CASE("a rank 0 that can accept nobody says why at its deadline, and does not spin") {
  Socket deaf(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));  // accept: EINVAL; poll: ready
  REQUIRE(deaf.open());
  JoinServer server(std::move(deaf), 2, "a secret", kFewestGuests);
  rusage before = {}, after = {};
  getrusage(RUSAGE_THREAD, &before);
  const absl::Status status = server.Run(In(2));
  getrusage(RUSAGE_THREAD, &after);
  CHECK(ExpectError(status, absl::StatusCode::kDeadlineExceeded,
                    {"waiting for rank 1 of 2 to join", "no connection could be accepted here: Invalid argument"}) ==
        absl::OkStatus());
  // A spinning thread makes some hundred thousand calls, which the system counts as its time.
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec; };
  const double used =
      seconds(after.ru_utime) + seconds(after.ru_stime) - seconds(before.ru_utime) - seconds(before.ru_stime);
  CHECK(used < 0.5);
}

TEST_CASE("a rank that has no descriptor left to join with says so at once", "[no_descriptors]") {
  const auto outcomes = RunRanks(2, absl::Seconds(20), [](const World& world) -> absl::Status {
    if (world.rank == 0) return absl::OkStatus();
    const rlim_t few = static_cast<rlim_t>(OpenDescriptors()) + 10;
    LimitDescriptors(few, few);
    while (dup(0) >= 0) continue;
    return ExpectError(CreateRendezvous(world, In(300)).status(), absl::StatusCode::kResourceExhausted,
                       {"rank 1 on ", "joins rank 0", "Too many open files", "ulimit -Hn"});
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
  constexpr int kPatience = 100;  // seconds; a guard, as the ranks wait for the strangers
  const auto outcomes = RunRanks(3, absl::Seconds(120), [](World world) -> absl::Status {
    const HostPort place = *ParseHostPort(world.rendezvous);
    if (world.rank == 0) {
      world.world_size = 2;
      std::thread thread([] { AwaitAllRanks().IgnoreError(); });
      const absl::Status met = MeetAndExchange(world, kPatience);
      thread.join();
      DISTILL_RETURN_IF_ERROR(met);
      return AwaitAllRanks();
    }
    if (world.rank == 1) {
      world.world_size = 2;
      DISTILL_RETURN_IF_ERROR(AwaitAllRanks());  // the strangers come first
      DISTILL_RETURN_IF_ERROR(MeetAndExchange(world, kPatience));
      return AwaitAllRanks();
    }
    for (const Deadline deadline = In(30); !Connect(place, In(1)).ok() && !deadline.Passed();) continue;
    std::vector<Socket> idle;
    for (int i = 0; i < 1000; ++i) {
      DISTILL_ASSIGN_OR_RETURN(Socket socket, Connect(place, In(5)));
      idle.push_back(std::move(socket));
    }
    DISTILL_RETURN_IF_ERROR(Replay(place, world.job_secret, std::string(32, 'n')));
    const auto open = std::count_if(idle.begin(), idle.end(), [](const Socket& s) { return StillOpen(s); });
    DISTILL_RETURN_IF_ERROR(Expect(open <= 64, absl::StrCat(open, " strangers were kept waiting")));
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());
    DISTILL_RETURN_IF_ERROR(AwaitAllRanks());  // the ranks have met
    return Expect(!Connect(place, In(1)).ok(), "the port is still open to strangers after the meeting");
  });
  CHECK(Failures(outcomes) == "");
}

}  // namespace
}  // namespace distill
