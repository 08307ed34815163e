#include "libdistill/world/framing.h"

#include <sys/socket.h>

#include "libdistill/core/status_macros.h"
#include "libdistill/world/outbox.h"
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

// The bytes of these frames, as one side sends them.
std::string Stream(const std::vector<Message>& messages, const std::string& key = "a key") {
  FrameSeal seal(key);
  std::string bytes;
  for (const Message& message : messages) {
    const SharedMessage sealed = MakeMessage(message.kind, message.sequence, message.payload);
    bytes += seal.Seal(*sealed) + sealed->payload;
  }
  return bytes;
}

// What the reader says to a stream, until it wants more.
absl::Status ReadAll(const std::string& bytes, std::vector<std::string>& payloads, size_t limit = 100) {
  Pair pair;
  FrameReader reader(limit, "a key");
  pair.Write(bytes);
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(const bool whole, reader.Poll(pair.near));
    if (!whole) return absl::OkStatus();
    payloads.push_back(reader.frame().payload);
    reader.Drop();
  }
}

TEST_CASE("frames arrive whole, in whatever pieces their bytes come") {
  Pair pair;
  FrameReader reader(100, "a key");
  const std::string bytes = Stream({{FrameKind::kBlob, 7, "hello", ""}, {FrameKind::kAll, 8, "", ""}});
  int frames = 0;
  for (const char byte : bytes) {
    pair.Write(std::string(1, byte));
    // After a frame, or a part of one, the reader wants to be asked again when there is more.
    absl::StatusOr<bool> whole = reader.Poll(pair.near);
    if (whole.ok() && !*whole) whole = reader.Poll(pair.near);
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
  std::vector<std::string> got;
  const std::string too_long = Stream({{FrameKind::kBlob, 0, std::string(101, 'x'), ""}});
  CHECK(absl::IsDataLoss(ReadAll(too_long.substr(0, kFrameHeaderBytes), got)));
  CHECK(absl::IsDataLoss(ReadAll(Stream({{static_cast<FrameKind>(99), 0, "", ""}}), got)));
  CHECK(got.empty());
}

TEST_CASE("the end of the stream is an error") {
  Pair pair;
  FrameReader reader(100, "a key");
  CHECK(reader.Poll(pair.near).value() == false);
  shutdown(pair.far.fd(), SHUT_RDWR);
  CHECK(absl::IsUnavailable(reader.Poll(pair.near).status()));
}

TEST_CASE("a frame that was changed, repeated, left out, moved, or made with another key is refused") {
  const Message a = {FrameKind::kBlob, 1, "first", ""}, b = {FrameKind::kBlob, 2, "second", ""};
  const std::string stream = Stream({a, b});
  const std::string first = Stream({a});
  const std::string second = stream.substr(first.size());
  std::vector<std::string> got;
  REQUIRE(ReadAll(stream, got).ok());
  CHECK(got == std::vector<std::string>{"first", "second"});
  for (size_t i = 0; i < first.size(); ++i) {
    std::string changed = first;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    got.clear();
    CHECK(absl::IsDataLoss(ReadAll(changed, got)));
    CHECK(got.empty());
  }
  for (const std::string& forged : {first + first, first + second + second, first + second + first}) {
    got.clear();
    CHECK(absl::IsDataLoss(ReadAll(forged, got)));
    CHECK(got.size() == (forged.size() > stream.size() ? 2u : 1u));
  }
  for (const std::string& forged : {second, second + first, Stream({a}, "another key")}) {
    got.clear();
    CHECK(absl::IsDataLoss(ReadAll(forged, got)));
    CHECK(got.empty());
  }
}

TEST_CASE("a short frame costs one call of the kernel's, and so do many that came together") {
  Pair pair;
  FrameReader reader(100, "a key");
  pair.Write(Stream({{FrameKind::kBeat, 0, "x", ""}, {FrameKind::kBeat, 0, "", ""}, {FrameKind::kBeat, 0, "y", ""}}));
  for (int frames = 0; frames < 3; ++frames) {
    REQUIRE(reader.Poll(pair.near).value());
    reader.Drop();
  }
  CHECK(reader.Poll(pair.near).value() == false);
  CHECK(reader.receive_calls() == 1);
}

TEST_CASE("a reader asks for no more than it may, and what has arrived is not held back") {
  Pair pair;
  FrameReader reader(100 << 10, "a key");
  const std::string payload(100 << 10, 'p');
  pair.Write(
      Stream({{FrameKind::kBlob, 1, payload, ""}, {FrameKind::kBeat, 0, "x", ""}, {FrameKind::kBeat, 0, "y", ""}}));
  REQUIRE(reader.Poll(pair.near, 1).value() == false);
  const uint64_t first = reader.received_bytes();
  CHECK(reader.receive_calls() == 1);
  CHECK(first < payload.size());
  REQUIRE(reader.Poll(pair.near, first).value() == false);
  CHECK(reader.received_bytes() == first);
  // As the socket is reported again and again, all of it comes; frames behind a whole one need no further call.
  int rounds = 1;
  while (!reader.Poll(pair.near, reader.received_bytes() + 1).value()) REQUIRE(++rounds < 100);
  CHECK(rounds > 1);
  CHECK(reader.frame().payload == payload);
  reader.Drop();
  REQUIRE(reader.Poll(pair.near, reader.received_bytes() + 1).value());
  CHECK(reader.frame().payload == "x");
  reader.Drop();
  const int64_t calls = reader.receive_calls();
  REQUIRE(reader.Poll(pair.near, 0).value());
  CHECK(reader.frame().payload == "y");
  CHECK(reader.receive_calls() == calls);
}

TEST_CASE("a hash of bytes that come in pieces is that of the whole, again and again") {
  Sha256Stream stream;
  for (const std::string text : {"", "a", "a longer text"}) {
    for (size_t i = 0; i < text.size(); i += 3) stream.Add(absl::string_view(text).substr(i, 3));
    CHECK(stream.Finish() == Sha256(text));
  }
}

TEST_CASE("messages to many peers leave in pieces, and each peer can read its own") {
  const SharedMessage message = MakeMessage(FrameKind::kAll, 3, std::string(5 << 20, 'm'));
  for (const std::string key : {"one", "other"}) {
    Pair pair;
    Outbox outbox(key);
    FrameReader reader(8 << 20, key);
    outbox.Add(message);
    outbox.Add(MakeMessage(FrameKind::kBeat, 0, ""));
    int frames = 0;
    while (frames < 2) {
      const absl::StatusOr<size_t> sent = outbox.Send(pair.far);
      REQUIRE(sent.ok());
      REQUIRE(*sent <= Outbox::kPieceBytes);
      const absl::StatusOr<bool> whole = reader.Poll(pair.near);
      REQUIRE(whole.ok());
      if (!*whole) continue;
      CHECK((++frames == 1 ? reader.frame().payload == message->payload : reader.frame().payload.empty()));
      reader.Drop();
    }
    CHECK(outbox.empty());
  }
  CHECK(message.use_count() == 1);
}

TEST_CASE("an outbox whose connection broke in the middle of a frame sends nothing more") {
  Pair pair;
  Outbox outbox("a key");
  outbox.Add(MakeMessage(FrameKind::kAll, 1, std::string(5 << 20, 'm')));
  REQUIRE(outbox.Send(pair.far).value() > 0);
  pair.near = Socket();
  REQUIRE(absl::IsUnavailable(outbox.Send(pair.far).status()));
  outbox.Break();
  CHECK(outbox.empty());
  Pair other;  // takes whatever is sent
  outbox.Add(MakeMessage(FrameKind::kBeat, 0, "x"));
  CHECK(outbox.empty());
  CHECK(outbox.Send(other.far).value() == 0);
  CHECK(ReceiveSome(other.near, 100).value().empty());
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
