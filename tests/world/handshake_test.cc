#include "libdistill/world/handshake.h"

#include "absl/strings/escaping.h"
#include "libdistill/world/mac.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

const Nonces kNonces = {std::string(32, 'a'), std::string(32, 'b')};

TEST_CASE("a proof is believed from who knows the secret") {
  const JoinRequest request = {3, 8, "host-b"};
  const std::string proof = EncodeProof("secret", kNonces, request);
  REQUIRE(proof.size() == kProofBytes);
  const std::optional<JoinRequest> checked = CheckProof("secret", kNonces, proof);
  REQUIRE(checked);
  CHECK(checked->rank == 3);
  CHECK(checked->world_size == 8);
  CHECK(checked->host == "host-b");
}

TEST_CASE("a proof with another secret, other nonces or one changed byte is not believed") {
  const std::string proof = EncodeProof("secret", kNonces, {3, 8, "host-b"});
  CHECK(!CheckProof("other", kNonces, proof));
  CHECK(!CheckProof("", kNonces, proof));
  CHECK(!CheckProof("secret", {kNonces.root, kNonces.joiner}, proof));
  CHECK(!CheckProof("secret", {kNonces.joiner, std::string(32, 'c')}, proof));  // a replay
  CHECK(!CheckProof("secret", kNonces, proof.substr(1)));
  for (size_t i = 0; i < proof.size(); ++i) {
    std::string changed = proof;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK(!CheckProof("secret", kNonces, changed));
  }
}

TEST_CASE("a long host name is cut") {
  const std::string proof = EncodeProof("s", kNonces, {1, 2, std::string(300, 'h')});
  CHECK(CheckProof("s", kNonces, proof)->host == std::string(63, 'h'));
}

TEST_CASE("a verdict is believed from who knows the secret, and is no proof") {
  const std::string verdict = EncodeVerdict("secret", kNonces, Verdict::kWelcome);
  CHECK(CheckVerdict("secret", kNonces, verdict) == Verdict::kWelcome);
  CHECK(!CheckVerdict("other", kNonces, verdict));
  std::string changed = verdict;
  changed[0] = static_cast<char>(Verdict::kRankTaken);
  CHECK(!CheckVerdict("secret", kNonces, changed));
  CHECK(CheckVerdict("other", kNonces, EncodeVerdict("secret", kNonces, Verdict::kWrongSecret)) ==
        Verdict::kWrongSecret);
}

TEST_CASE("each direction of each connection has a key of its own, which both sides make") {
  const FrameKeys root = DeriveFrameKeys("secret", kNonces, true), joiner = DeriveFrameKeys("secret", kNonces, false);
  CHECK(root.send == joiner.receive);
  CHECK(root.receive == joiner.send);
  CHECK(root.send != root.receive);
  CHECK(DeriveFrameKeys("other", kNonces, true).send != root.send);
  CHECK(DeriveFrameKeys("secret", {kNonces.joiner, std::string(32, 'c')}, true).send != root.send);
}

TEST_CASE("each part of a job has a secret of its own, and none without one") {
  CHECK(DerivePartSecret("secret", "1,2") == DerivePartSecret("secret", "1,2"));
  CHECK(DerivePartSecret("secret", "1,2") != DerivePartSecret("secret", "1,3"));
  CHECK(DerivePartSecret("secret", "1,2") != DerivePartSecret("other", "1,2"));
  CHECK(DerivePartSecret("", "1,2").empty());
}

TEST_CASE("hashes and codes are those of the standards") {
  // FIPS 180-4's example, and RFC 4231's test case 2.
  CHECK(absl::BytesToHexString(Sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(absl::BytesToHexString(HmacSha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("hellos carry nonces, which never repeat") {
  const std::string nonce = MakeNonce();
  CHECK(DecodeHello(EncodeHello(nonce)) == nonce);
  CHECK(MakeNonce() != nonce);
  CHECK(!DecodeHello("GET / HTTP/1.1\r\nHost: rank0.example.org\r"));
  CHECK(!DecodeHello(""));
}

}  // namespace
}  // namespace distill
