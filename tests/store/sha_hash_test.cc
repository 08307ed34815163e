#include "libdistill/store/sha_hash.h"

#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("files have the hashes that sha256sum and git hash-object give them") {
  CHECK(GitHashOf("Hello, World!") == "b45ef6fec89518d314f546fd6c3025367b721684");
  CHECK(GitHashOf("") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  CHECK(*Sha256OfFile(MakeMemoryFile("a", "abc")) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(*Sha256OfFile(MakeMemoryFile("a", "")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(*Sha256OfFile(MakeMemoryFile("a", std::string(3'000'001, 'a'))) ==
        ShaHash(ShaKind::kSha256).Add(std::string(3'000'000, 'a')).Add("a").Hex());
}

}  // namespace
}  // namespace distill
