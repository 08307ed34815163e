// The parsers behind the rendezvous' port, fed with damaged and random bytes from fixed seeds: an error or a frame
// within its bounds, never a crash (the address sanitizer's build runs this too) and never more memory than the limit.
#include <sys/socket.h>

#include <random>

#include "libdistill/world/framing.h"
#include "libdistill/world/handshake.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr size_t kLimit = 1000;

std::string RandomBytes(std::mt19937_64& random, size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Reads what was written until the stream ends or is refused; returns how many frames came.
int ReadAll(const std::string& bytes) {
  int fds[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
  const Socket near(fds[0]);
  const Socket far(fds[1]);
  REQUIRE(SendAll(far, bytes, Deadline::After(absl::Seconds(5))).ok());
  shutdown(far.fd(), SHUT_WR);
  FrameReader reader(kLimit);
  for (int frames = 0;; ++frames) {
    const absl::StatusOr<bool> whole = reader.Poll(near);
    if (!whole.ok()) return frames;
    REQUIRE(*whole);  // all bytes are there: a frame, or the end
    REQUIRE(reader.frame().payload.size() <= kLimit);
    DecodeStatus(reader.frame().payload).IgnoreError();
    DecodeGoodbye(reader.frame().payload).IgnoreError();
    UnpackStrings(reader.frame().payload).IgnoreError();
    reader.Drop();
  }
}

std::string ValidStream(std::mt19937_64& random, int frames) {
  std::string stream;
  for (int i = 0; i < frames; ++i) {
    const auto kind = static_cast<FrameKind>(1 + random() % 6);
    const std::string payload = kind == FrameKind::kGoodbye ? EncodeGoodbye({1, random(), "rank 1 on a"})
                                : kind == FrameKind::kAll
                                    ? PackStrings({RandomBytes(random, random() % 300), "", RandomBytes(random, 9)})
                                    : RandomBytes(random, random() % kLimit);
    stream += EncodeFrame(kind, static_cast<uint32_t>(random()), payload);
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

TEST_CASE("frames with changed bytes, and bytes that are no frames, are refused or bounded") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 3000; ++round) {
    std::string stream = ValidStream(random, 2);
    for (uint64_t change = 1 + random() % 4; change > 0; --change) {
      stream[random() % stream.size()] = static_cast<char>(random());
    }
    ReadAll(stream);
    ReadAll(RandomBytes(random, random() % 200));
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

}  // namespace
}  // namespace distill
