// What a star costs the rank in its middle, with as many peers as a process may have: memory and calls of the kernel.
#include "libdistill/world/star.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/outbox.h"
#include "tests/support/catch.h"
#include "tests/support/deadline_in.h"

namespace distill {
namespace {

using testing::In;

constexpr int kPeers = 200;
constexpr size_t kPayloadBytes = size_t{2} << 20;

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Rank 0's star, and the other ends of its connections.
struct ManyPeers {
  ManyPeers() : world(MakeWorld()), star(world, "a test", std::make_shared<BusyRanks>()) {
    for (int rank = 1; rank <= kPeers; ++rank) {
      int fds[2];
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
      star.Add(rank, absl::StrCat("rank ", rank, " on a"), Socket(fds[0]), {"down", "up"}, kMaxBlobBytes);
      near.push_back(fds[0]);
      far.emplace_back(fds[1]);
    }
    REQUIRE(star.Start().ok());
  }
  static World MakeWorld() {
    World world;
    world.world_size = world.local_size = kPeers + 1;
    world.host = "a";
    return world;
  }
  World world;
  Star star;
  std::vector<int> near;  // the star's
  std::vector<Socket> far;
};

TEST_CASE("what rank 0 tells many peers is in memory once, and comes to each of them") {
  ManyPeers peers;
  const int64_t before = ResidentBytes();
  peers.star.Tell(MakeMessage(FrameKind::kAll, 1, std::string(kPayloadBytes, 'p')));
  const int64_t grown = ResidentBytes() - before;
  std::printf("a message of %zu bytes to %d peers: %lld bytes more in memory\n", kPayloadBytes, kPeers,
              static_cast<long long>(grown));
  CHECK(grown < 16 * static_cast<int64_t>(kPayloadBytes));  // 400 MB if each had its own
  std::vector<FrameReader> readers;
  for (int i = 0; i < kPeers; ++i) readers.emplace_back(kPayloadBytes, "down");
  // One after the other, so that one peer's copy at a time is in this process.
  for (size_t i = 0; i < readers.size(); ++i) {
    const Deadline deadline = In(60);
    absl::StatusOr<bool> whole = false;
    while (whole.ok() && !*whole && !deadline.Passed()) whole = readers[i].Poll(peers.far[i]);
    REQUIRE(whole.ok());
    REQUIRE(*whole);
    REQUIRE(readers[i].frame().payload.size() == kPayloadBytes);
    readers[i].Drop();
  }
  CHECK(peers.star.Flush(In(10)).ok());
}

TEST_CASE("a beat of one peer costs rank 0 one look at that peer, however many there are") {
  ManyPeers peers;
  constexpr int kBeats = 50;
  Outbox outbox("up");
  const int64_t before = peers.star.receive_calls();
  for (int beat = 1; beat <= kBeats; ++beat) {
    outbox.Add(MakeMessage(FrameKind::kBeat, 0, "x"));
    REQUIRE(outbox.Send(peers.far[7]).ok());
    for (const Deadline deadline = In(10); peers.star.receive_calls() < before + beat && !deadline.Passed();) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  // All peers at once: what each sent is read with one call, too.
  std::vector<Outbox> outboxes(static_cast<size_t>(kPeers), Outbox("up"));
  for (size_t i = 0; i < outboxes.size(); ++i) {
    if (i == 7) continue;
    outboxes[i].Add(MakeMessage(FrameKind::kBlob, 1, absl::StrCat("of ", i + 1)));
    REQUIRE(outboxes[i].Send(peers.far[i]).ok());
  }
  outbox.Add(MakeMessage(FrameKind::kBlob, 1, "of 8"));
  REQUIRE(outbox.Send(peers.far[7]).ok());
  const absl::StatusOr<std::vector<std::string>> blobs = peers.star.Await(FrameKind::kBlob, 1, In(10));
  REQUIRE(blobs.ok());
  for (int i = 0; i < kPeers; ++i) CHECK((*blobs)[static_cast<size_t>(i)] == absl::StrCat("of ", i + 1));
  const int64_t calls = peers.star.receive_calls() - before;
  std::printf("%d beats of one of %d peers and a blob of each: %lld receive calls\n", kBeats, kPeers,
              static_cast<long long>(calls));
  CHECK(calls <= 2 * (kBeats + kPeers));  // 10,000 for the beats alone if each were asked at each
}

TEST_CASE("what a peer sends in many pieces arrives whole, and so does what follows") {
  ManyPeers peers;
  Outbox outbox("up");
  const std::string large(kMaxBlobBytes, 'l');
  outbox.Add(MakeMessage(FrameKind::kBlob, 1, large));
  outbox.Add(MakeMessage(FrameKind::kGoodbye, 0, EncodeGoodbye({6, 3, "rank 6 on a"})));
  for (const Deadline deadline = In(60); !outbox.empty() && !deadline.Passed();)
    REQUIRE(outbox.Send(peers.far[5]).ok());
  for (size_t i = 0; i < peers.far.size(); ++i) {
    if (i == 5) continue;
    Outbox short_one("up");
    short_one.Add(MakeMessage(FrameKind::kBlob, 1, "s"));
    REQUIRE(short_one.Send(peers.far[i]).ok());
  }
  const absl::StatusOr<std::vector<std::string>> blobs = peers.star.Await(FrameKind::kBlob, 1, In(60));
  REQUIRE(blobs.ok());
  CHECK((*blobs)[5] == large);
  for (const Deadline deadline = In(60); !peers.star.HasLeft(6) && !deadline.Passed();) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  CHECK(peers.star.HasLeft(6));
}

TEST_CASE("a connection that the kernel cannot watch is an error of the start, and not a peer that is never heard") {
  Star star(ManyPeers::MakeWorld(), "a test", std::make_shared<BusyRanks>());
  Socket file(open("/proc/self/stat", O_RDONLY | O_CLOEXEC));  // epoll takes no files
  REQUIRE(file.open());
  star.Add(1, "rank 1 on a", std::move(file), {"down", "up"}, kMaxBlobBytes);
  const absl::Status status = star.Start();
  CHECK(status.code() == absl::StatusCode::kInternal);
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("rank 0 on a: the kernel cannot watch the connection at descriptor"));
}

TEST_CASE("a connection of which the kernel cannot say when it takes more ends the star, with the peer's name") {
  ManyPeers peers;
  int fds[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  const Socket unread(fds[1]), unwatched(fds[0]);
  REQUIRE(dup2(unwatched.fd(), peers.near[3]) >= 0);
  peers.star.Tell(MakeMessage(FrameKind::kAll, 1, std::string(8 << 20, 'p')));  // more than any socket takes at once
  const absl::Status status = peers.star.Flush(In(60));
  CHECK(status.code() == absl::StatusCode::kInternal);
  CHECK_THAT(std::string(status.message()), Catch::Contains("rank 4 on a: the kernel cannot watch the connection"));
}

TEST_CASE("a peer that sends what it cannot prove is named, and ends the star") {
  ManyPeers peers;
  Outbox forged("not its key");
  forged.Add(MakeMessage(FrameKind::kBeat, 0, ""));
  REQUIRE(forged.Send(peers.far[3]).ok());
  absl::Status status;
  for (const Deadline deadline = In(10); status.ok() && !deadline.Passed();) status = peers.star.CheckPeers();
  CHECK(absl::IsDataLoss(status));
  CHECK(std::string(status.message()).find("rank 4 on a") == 0);
}

}  // namespace
}  // namespace distill
