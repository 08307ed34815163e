// The parsers behind the rendezvous' port, fed with damaged and random bytes from fixed seeds: an error or a frame
// within its bounds, never a crash (the address sanitizer's build runs this too) and never more memory than the limit.
// The last test is a mutational fuzzer: what it changes is a corpus of valid messages, a few changes at a time.
#include <sys/socket.h>

#include <random>

#include "libdistill/world/call_watch.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/handshake.h"
#include "libdistill/world/slurm.h"
#include "tests/support/catch.h"
#include "tests/support/mutate.h"

namespace distill {
namespace {

using testing::Mutate;
using testing::RandomBytes;

constexpr size_t kLimit = 1000;
constexpr char kKey[] = "a key of the test";

void ParsePayload(const std::string& payload) {
  DecodeStatus(payload).IgnoreError();
  DecodeGoodbye(payload).IgnoreError();
  UnpackStrings(payload).IgnoreError();
}

// Reads what was written until the stream ends or is refused; returns how many frames came.
int ReadAll(const std::string& bytes) {
  int fds[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
  const Socket near(fds[0]);
  const Socket far(fds[1]);
  REQUIRE(SendAll(far, bytes, Deadline::After(absl::Seconds(5))).ok());
  shutdown(far.fd(), SHUT_WR);
  FrameReader reader(kLimit, kKey);
  for (int frames = 0;;) {
    const absl::StatusOr<bool> whole = reader.Poll(near);
    if (!whole.ok()) return frames;  // all bytes are there: it comes to their end
    if (!*whole) continue;
    ++frames;
    REQUIRE(reader.frame().payload.size() <= kLimit);
    ParsePayload(reader.frame().payload);
    reader.Drop();
  }
}

std::string ValidStream(std::mt19937_64& random, int frames) {
  std::string stream;
  FrameSeal seal(kKey);
  for (int i = 0; i < frames; ++i) {
    const auto kind = static_cast<FrameKind>(1 + random() % 7);
    const std::string payload = kind == FrameKind::kGoodbye ? EncodeGoodbye({1, random(), "rank 1 on a"})
                                : kind == FrameKind::kAll
                                    ? PackStrings({RandomBytes(random, random() % 300), "", RandomBytes(random, 9)})
                                    : RandomBytes(random, random() % kLimit);
    const SharedMessage message = MakeMessage(kind, static_cast<uint32_t>(random()), payload);
    stream += seal.Seal(*message) + message->payload;
  }
  return stream;
}

TEST_CASE("random frames are read whole, and cut anywhere they end the stream after the whole ones") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const int frames = 1 + static_cast<int>(random() % 5);
    const std::string stream = ValidStream(random, frames);
    REQUIRE(ReadAll(stream) == frames);
    REQUIRE(ReadAll(stream.substr(0, random() % stream.size())) < frames);
  }
}

TEST_CASE("frames with changed bytes, and bytes that are no frames, are refused") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 3000; ++round) {
    const std::string stream = ValidStream(random, 2);
    std::string changed = stream;
    for (uint64_t change = 1 + random() % 4; change > 0; --change) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    REQUIRE(ReadAll(changed) < (changed == stream ? 3 : 2));
    REQUIRE(ReadAll(RandomBytes(random, random() % 200)) == 0);
  }
}

TEST_CASE("random and cut bytes are no hello, no proof and no verdict") {
  std::mt19937_64 random(3);
  const Nonces nonces = {std::string(32, 'a'), std::string(32, 'b')};
  for (int round = 0; round < 3000; ++round) {
    for (const size_t size : {static_cast<size_t>(random() % 200), kHelloBytes, kProofBytes}) {
      const std::string bytes = RandomBytes(random, size);
      REQUIRE(!DecodeHello(bytes));
      REQUIRE(!CheckProof("secret", nonces, bytes));
    }
    std::string verdict = RandomBytes(random, kVerdictBytes);
    verdict[0] = static_cast<char>(Verdict::kWelcome);
    REQUIRE(!CheckVerdict("secret", nonces, verdict));
    const std::string proof = EncodeProof("secret", nonces, {1, 2, "h"});
    REQUIRE(!CheckProof("secret", nonces, proof.substr(0, random() % proof.size())));
  }
}

// Every parser of this room that sees bytes of a peer or of a launcher; each takes anything. What ranks tell one
// another once they have proved that they know the secret (cards, tables, tickets): tests/comm/cards_fuzz_test.cc.
void ParseAll(const std::string& bytes, const Nonces& nonces) {
  ReadAll(bytes);
  DecodeHello(bytes);
  REQUIRE((!CheckProof("another secret", nonces, bytes)));
  CheckProof("secret", nonces, bytes);
  CheckVerdict("secret", nonces, bytes);
  if (const auto strings = UnpackStrings(bytes); strings.ok()) {
    size_t total = 0;
    for (const std::string& string : *strings) total += string.size();
    REQUIRE(total <= bytes.size());
  }
  DecodeGoodbye(bytes).IgnoreError();
  DecodeCalls(bytes).IgnoreError();
  DecodeStatus(bytes).IgnoreError();
  ParseHostPort(bytes).IgnoreError();
  FirstHostOfNodeList(bytes).IgnoreError();
  TasksOnNode(bytes, 3).IgnoreError();
}

TEST_CASE("valid messages with a few mutations each are parsed or refused, by every parser") {
  std::mt19937_64 random(4);
  const Nonces nonces = {std::string(32, 'a'), std::string(32, 'b')};
  std::vector<std::string> corpus = {
      EncodeHello(nonces.joiner),
      EncodeProof("secret", nonces, {1, 2, "host-a"}),
      EncodeVerdict("secret", nonces, Verdict::kWelcome),
      PackStrings({"a", "", std::string(40, 'x')}),
      EncodeGoodbye({3, 12345, "rank 3 on host-a"}),
      PackStrings({"17", "barrier", "18", "all-reduce of 3 int64"}),
      EncodeStatus(absl::DataLossError("the disk is gone")),
      "[fe80::1]:29500",
      "host-a:29500",
      "node[03-05,9],gpu1",
      "4(x2),3",
  };
  for (int i = 0; i < 6; ++i) corpus.push_back(ValidStream(random, 1 + i % 3));
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = corpus[random() % corpus.size()];
    for (uint64_t changes = 1 + random() % 5; changes > 0; --changes) Mutate(random, corpus, bytes);
    ParseAll(bytes, nonces);
  }
}

}  // namespace
}  // namespace distill
