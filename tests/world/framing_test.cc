#include "libdistill/world/framing.h"

#include <sys/socket.h>

#include "tests/support/catch.h"

namespace distill {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    near = Socket(fds[0]);
    far = Socket(fds[1]);
  }
  void Write(absl::string_view bytes) { REQUIRE(SendAll(far, bytes, Deadline::After(absl::Seconds(1))).ok()); }
  Socket near, far;
};

TEST_CASE("frames arrive whole, in whatever pieces their bytes come") {
  Pair pair;
  FrameReader reader(100);
  const std::string bytes = EncodeFrame(FrameKind::kBlob, 7, "hello") + EncodeFrame(FrameKind::kAll, 8, "");
  int frames = 0;
  for (const char byte : bytes) {
    pair.Write(std::string(1, byte));
    const absl::StatusOr<bool> whole = reader.Poll(pair.near);
    REQUIRE(whole.ok());
    if (!*whole) continue;
    ++frames;
    CHECK(reader.frame().kind == (frames == 1 ? FrameKind::kBlob : FrameKind::kAll));
    CHECK(reader.frame().sequence == (frames == 1 ? 7u : 8u));
    CHECK(reader.frame().payload == (frames == 1 ? "hello" : ""));
    reader.Drop();
  }
  CHECK(frames == 2);
}

TEST_CASE("a frame that is too long, or of no known kind, is refused before anything is allocated") {
  Pair pair;
  FrameReader reader(100);
  pair.Write(EncodeFrame(FrameKind::kBlob, 0, std::string(101, 'x')).substr(0, 16));
  CHECK(absl::IsDataLoss(reader.Poll(pair.near).status()));
  Pair other;
  FrameReader another(100);
  other.Write(EncodeFrame(static_cast<FrameKind>(99), 0, ""));
  CHECK(absl::IsDataLoss(another.Poll(other.near).status()));
}

TEST_CASE("the end of the stream is an error") {
  Pair pair;
  FrameReader reader(100);
  CHECK(reader.Poll(pair.near).value() == false);
  shutdown(pair.far.fd(), SHUT_RDWR);
  CHECK(absl::IsUnavailable(reader.Poll(pair.near).status()));
}

TEST_CASE("statuses and packed strings survive the wire; damaged ones are errors") {
  const absl::Status status = DecodeStatus(EncodeStatus(absl::NotFoundError("no such file")));
  CHECK(status == absl::NotFoundError("no such file"));
  CHECK(absl::IsInternal(DecodeStatus("")));
  CHECK(absl::IsInternal(DecodeStatus(std::string("\xffwhat"))));
  CHECK(absl::IsInternal(DecodeStatus(std::string(1, '\0'))));
  const std::vector<std::string> strings = {"", "a", std::string(1000, '\0')};
  const std::string packed = PackStrings(strings);
  CHECK(*UnpackStrings(packed) == strings);
  CHECK(absl::IsDataLoss(UnpackStrings(packed.substr(0, packed.size() - 1)).status()));
  CHECK(absl::IsDataLoss(UnpackStrings(packed + "x").status()));
  CHECK(absl::IsDataLoss(UnpackStrings(std::string(8, '\xff')).status()));
  const absl::StatusOr<Goodbye> goodbye = DecodeGoodbye(EncodeGoodbye({2, uint64_t{1} << 40, "rank 2 on b"}));
  REQUIRE(goodbye.ok());
  CHECK(goodbye->rank == 2);
  CHECK(goodbye->finished_calls == uint64_t{1} << 40);
  CHECK(goodbye->name == "rank 2 on b");
  for (const std::string& damaged : {PackStrings({"2", "x", "n"}), PackStrings({"2", "1"}), std::string("x")}) {
    CHECK(absl::IsDataLoss(DecodeGoodbye(damaged).status()));
  }
}

}  // namespace
}  // namespace distill
