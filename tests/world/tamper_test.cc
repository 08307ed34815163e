// Somebody on the way between two ranks, and strangers who answer in rank 0's place.
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/handshake.h"
#include "libdistill/world/rendezvous.h"
#include "libdistill/world/socket.h"
#include "libdistill/world/tcp_rendezvous.h"
#include "tests/support/catch.h"
#include "tests/support/connect.h"
#include "tests/support/deadline_in.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::Connect;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::In;
using testing::ReservedPort;
using testing::RunRanks;

// What the one in the middle makes of the frames from the joiner to rank 0.
using Change = std::function<std::vector<std::string>(std::vector<std::string> frames)>;

absl::StatusOr<Socket> AcceptWithin(const Socket& listener, const Deadline& deadline) {
  for (Socket socket; !deadline.Passed(); absl::SleepFor(absl::Milliseconds(1))) {
    socket = AcceptOne(listener);
    if (socket.open()) return socket;
  }
  return deadline.Error("waiting for a connection");
}

absl::StatusOr<Socket> ConnectWithin(const HostPort& place, const Deadline& deadline) {
  for (absl::StatusOr<Socket> socket = absl::UnavailableError("");; absl::SleepFor(absl::Milliseconds(5))) {
    socket = Connect(place, In(1));
    if (socket.ok() || deadline.Passed()) return socket;
  }
}

// Passes on what comes until a side closes.
void PassOn(const Socket& from, const Socket& to) {
  for (;;) {
    pollfd entry = {from.fd(), POLLIN, 0};
    poll(&entry, 1, 10'000);
    const absl::StatusOr<std::string> some = ReceiveSome(from, 1 << 16);
    if (!some.ok() || !SendAll(to, *some, In(5)).ok()) break;
  }
  shutdown(to.fd(), SHUT_WR);
}

absl::StatusOr<std::string> NextFrame(const Socket& from) {
  DISTILL_ASSIGN_OR_RETURN(std::string frame, ReceiveAll(from, kFrameHeaderBytes, In(10)));
  uint64_t length = 0;
  std::memcpy(&length, frame.data() + 8, sizeof(length));
  DISTILL_ASSIGN_OR_RETURN(const std::string payload, ReceiveAll(from, length, In(10)));
  return frame + payload;
}

// Stands between rank 1 and rank 0: passes on the handshake and all that rank 0 says, and the first two frames from
// rank 1 as `change` has them.
absl::Status StandBetween(int port, const HostPort& root, const Change& change) {
  DISTILL_ASSIGN_OR_RETURN(const Socket listener, Listen({"127.0.0.1", absl::StrCat(port)}));
  DISTILL_ASSIGN_OR_RETURN(const Socket joiner, AcceptWithin(listener, In(10)));
  DISTILL_ASSIGN_OR_RETURN(const Socket rank_zero, ConnectWithin(root, In(10)));
  std::thread back([&] { PassOn(rank_zero, joiner); });
  const auto tamper = [&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const std::string handshake, ReceiveAll(joiner, kHelloBytes, In(10)));
    DISTILL_RETURN_IF_ERROR(SendAll(rank_zero, handshake, In(5)));
    DISTILL_ASSIGN_OR_RETURN(const std::string proof, ReceiveAll(joiner, kProofBytes, In(10)));
    DISTILL_RETURN_IF_ERROR(SendAll(rank_zero, proof, In(5)));
    std::vector<std::string> frames(2);
    for (std::string& frame : frames) {
      DISTILL_ASSIGN_OR_RETURN(frame, NextFrame(joiner));
    }
    for (const std::string& frame : change(frames)) DISTILL_RETURN_IF_ERROR(SendAll(rank_zero, frame, In(5)));
    return absl::OkStatus();
  };
  const absl::Status tampered = tamper();
  PassOn(joiner, rank_zero);
  back.join();
  return tampered;
}

// Sends a beat with a call, and returns once it is on its way.
void BeatOnce(Rendezvous& meeting) {
  std::promise<void> beats;
  bool told = false;
  meeting.CompareCalls([&]() -> std::vector<CallView> {
    if (!std::exchange(told, true)) beats.set_value();
    return {{1, "barrier"}};
  });
  meeting.StartHeartbeat(absl::Seconds(60));
  beats.get_future().wait();
  meeting.CompareCalls(nullptr);
}

// A job of two ranks with somebody between them, through whom rank 1 sends a beat and then a blob.
std::string RunWithOneBetween(const Change& change, const std::function<absl::Status(const absl::Status&)>& judge) {
  const ReservedPort between;
  return Failures(RunRanks(3, absl::Seconds(30), [&](World world) -> absl::Status {
    if (world.rank == 2) return StandBetween(between.number(), *ParseHostPort(world.rendezvous), change);
    world.world_size = world.local_size = 2;
    if (world.rank == 1) world.rendezvous = absl::StrCat("127.0.0.1:", between.number());
    DISTILL_ASSIGN_OR_RETURN(const auto meeting, CreateRendezvous(world, In(10)));
    if (world.rank == 1) BeatOnce(*meeting);
    return judge(meeting->AllGather(absl::StrCat("of rank ", world.rank), In(10)).status());
  }));
}

TEST_CASE("frames that somebody on the way leaves as they are are believed") {
  CHECK(RunWithOneBetween([](std::vector<std::string> frames) { return frames; },
                          [](const absl::Status& status) { return status; }) == "");
}

TEST_CASE(
    "a frame that somebody on the way changes, repeats, leaves out, moves or makes up names the rank it came from") {
  const std::pair<const char*, Change> changes[] = {
      {"a byte of a payload",
       [](std::vector<std::string> frames) {
         frames[0].back() = static_cast<char>(frames[0].back() ^ 1);
         return frames;
       }},
      {"a byte of a header",
       [](std::vector<std::string> frames) {
         frames[0][4] = static_cast<char>(frames[0][4] ^ 1);
         return frames;
       }},
      {"a length",
       [](std::vector<std::string> frames) {
         frames[0][9] = 1;
         return frames;
       }},
      {"a repeated frame",
       [](std::vector<std::string> frames) {
         return std::vector<std::string>{frames[0], frames[0]};
       }},
      {"a frame left out", [](std::vector<std::string> frames) { return std::vector<std::string>{frames[1]}; }},
      {"moved frames",
       [](std::vector<std::string> frames) {
         return std::vector<std::string>{frames[1], frames[0]};
       }},
      {"a frame put in",
       [](std::vector<std::string> frames) {
         const SharedMessage forged = MakeMessage(FrameKind::kBlob, 1, "of nobody");
         return std::vector<std::string>{FrameSeal("a guess").Seal(*forged) + forged->payload, frames[0]};
       }},
  };
  for (const auto& [what, change] : changes) {
    INFO(what);
    CHECK(RunWithOneBetween(change, [](const absl::Status& status) {
            return ExpectError(status, absl::StatusCode::kDataLoss, {"rank 1 on ", "127.0.0.1:", "on the way"});
          }) == "");
  }
}

// Answers as a process that knows another secret does.
absl::Status Refuse(const Socket& joiner) {
  DISTILL_ASSIGN_OR_RETURN(const std::string hello, ReceiveAll(joiner, kHelloBytes, In(5)));
  const Nonces nonces = {*DecodeHello(hello), MakeNonce()};
  DISTILL_RETURN_IF_ERROR(SendAll(joiner, EncodeHello(nonces.root), In(5)));
  DISTILL_RETURN_IF_ERROR(ReceiveAll(joiner, kProofBytes, In(5)).status());
  return SendAll(joiner, EncodeVerdict("another secret", nonces, Verdict::kWrongSecret), In(5));
}

// More often than in the ten rounds after which a joiner may give up, and for less than the half minute.
TEST_CASE("a stranger who refuses the secret before rank 0 is there does not keep a rank from joining") {
  CHECK(Failures(RunRanks(2, absl::Seconds(120), [](const World& world) -> absl::Status {
          if (world.rank == 0) {
            DISTILL_ASSIGN_OR_RETURN(const Socket listener, Listen(*ParseHostPort(world.rendezvous)));
            for (int refused = 0; refused < 12; ++refused) {
              DISTILL_ASSIGN_OR_RETURN(const Socket joiner, AcceptWithin(listener, In(10)));
              DISTILL_RETURN_IF_ERROR(Refuse(joiner));
            }
          }
          DISTILL_ASSIGN_OR_RETURN(const auto meeting, CreateRendezvous(world, In(300)));
          return meeting->AllGather("x", In(10)).status();
        })) == "");
}

// As under mpirun where an address of rank 0's host is another host's, too.
TEST_CASE("a stranger who refuses the secret at one of several places does not keep a rank from the others") {
  const ReservedPort wrong;
  CHECK(Failures(RunRanks(3, absl::Seconds(30), [&wrong](World world) -> absl::Status {
          const HostPort stranger = {"127.0.0.1", absl::StrCat(wrong.number())};
          if (world.rank == 2) {
            DISTILL_ASSIGN_OR_RETURN(const Socket listener, Listen(stranger));
            for (const Deadline deadline = In(3); !deadline.Passed();) {
              const absl::StatusOr<Socket> joiner = AcceptWithin(listener, Deadline::After(absl::Milliseconds(100)));
              if (joiner.ok()) Refuse(*joiner).IgnoreError();
            }
            return absl::OkStatus();
          }
          world.world_size = world.local_size = 2;
          const HostPort right = *ParseHostPort(world.rendezvous);
          MeetingPlace place = {"test", Socket(), {stranger, right}};
          if (world.rank == 0) {
            absl::SleepFor(absl::Seconds(1));
            DISTILL_ASSIGN_OR_RETURN(place.listener, Listen(right));
          }
          DISTILL_ASSIGN_OR_RETURN(const auto meeting, CreateTcpRendezvousAt(world, std::move(place), In(10)));
          return meeting->AllGather("x", In(10)).status();
        })) == "");
}

TEST_CASE("ranks whose secrets differ are told so long before the deadline") {
  const auto outcomes = RunRanks(2, absl::Seconds(20), [](World world) {
    const Deadline deadline = In(world.rank == 0 ? 12 : 30);
    if (world.rank == 1) world.job_secret = "another secret";
    const absl::Status status = CreateRendezvous(world, deadline).status();
    if (world.rank == 1) {
      return ExpectError(status, absl::StatusCode::kPermissionDenied,
                         {"DISTILL_JOB_SECRET differs", "rank 0 at 127.0.0.1:"});
    }
    return ExpectError(status, absl::StatusCode::kDeadlineExceeded, {"rank 1 of 2", "did not prove the job secret"});
  });
  CHECK(Failures(outcomes) == "");
  CHECK(outcomes[1].took < outcomes[0].took);
}

}  // namespace
}  // namespace distill
