// Shards of tokens: what is written comes back, and damage is noticed, whichever byte it hits.
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/data/token_shard.h"
#include "libdistill/store/files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

TokenSample RandomSample(uint64_t number, size_t length) {
  Random random(7, number);
  TokenSample sample;
  for (size_t i = 0; i < length; ++i) {
    sample.ids.push_back(static_cast<int32_t>(random.Below(152000)));
    sample.is_target.push_back(static_cast<uint8_t>(random.Below(2)));
  }
  return sample;
}

std::vector<TokenSample> RandomSamples(size_t count) {
  std::vector<TokenSample> samples;
  for (size_t i = 0; i < count; ++i) samples.push_back(RandomSample(i, 1 + i % 9));
  return samples;
}

absl::Status WriteSamples(const std::string& path, const std::vector<TokenSample>& samples, const std::string& notes) {
  TokenShardWriter writer;
  for (const TokenSample& sample : samples) writer.Add(sample);
  return writer.Write(path, notes);
}

bool IsSame(const Sample& sample, const TokenSample& expected) {
  return *sample.Get<int32_t>("ids") == absl::MakeConstSpan(expected.ids) &&
         *sample.Get<uint8_t>("is_target") == absl::MakeConstSpan(expected.is_target);
}

TEST_CASE("a shard gives back its samples, in any order, and its notes") {
  const TempFolder folder;
  for (const size_t count : {0, 1, 2, 100}) {
    const std::vector<TokenSample> samples = RandomSamples(count);
    const std::string path = folder / absl::StrCat(count, ".tokens");
    REQUIRE(WriteSamples(path, samples, "what else").ok());
    const auto shard = TokenShard::Open(path);
    REQUIRE(shard.ok());
    CHECK((*shard)->notes() == "what else");
    REQUIRE((*shard)->size() == static_cast<int64_t>(count));
    for (size_t i = count; i-- > 0;) {
      const auto sample = (*shard)->Read(static_cast<int64_t>(i), 1000 + static_cast<int64_t>(i));
      REQUIRE(sample.ok());
      CHECK(sample->id == 1000 + static_cast<int64_t>(i));
      CHECK(IsSame(*sample, samples[i]));
      CHECK((*shard)->LengthOf(static_cast<int64_t>(i)) == static_cast<int64_t>(samples[i].ids.size()));
    }
  }
}

TEST_CASE("a sample outlives its shard") {
  const TempFolder folder;
  const std::vector<TokenSample> samples = RandomSamples(3);
  REQUIRE(WriteSamples(folder / "a.tokens", samples, "").ok());
  absl::StatusOr<Sample> sample = absl::UnknownError("not read");
  {
    const auto shard = TokenShard::Open(folder / "a.tokens");
    REQUIRE(shard.ok());
    sample = (*shard)->Read(1, 1);
  }
  REQUIRE(sample.ok());
  CHECK(IsSame(*sample, samples[1]));
}

// Whether the shard can be read to its end, and is then what was written.
std::string WhatIsRead(const std::string& path, const std::vector<TokenSample>& samples, const std::string& notes) {
  const auto shard = TokenShard::Open(path);
  if (!shard.ok()) return shard.status().ToString();
  if ((*shard)->size() != static_cast<int64_t>(samples.size()) || (*shard)->notes() != notes) return "other contents";
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto sample = (*shard)->Read(static_cast<int64_t>(i), 0);
    if (!sample.ok()) return sample.status().ToString();
    if (!IsSame(*sample, samples[i])) return "another sample";
  }
  return "the same";
}

TEST_CASE("a shard in which any byte changed, or whose end is missing, is refused") {
  const TempFolder folder;
  const std::vector<TokenSample> samples = RandomSamples(4);
  const std::string path = folder / "a.tokens";
  REQUIRE(WriteSamples(path, samples, "notes").ok());
  const std::string whole = *ReadFile(path);
  CHECK(WhatIsRead(path, samples, "notes") == "the same");
  for (size_t i = 0; i < whole.size(); ++i) {
    if (i >= 48 && i < 64) continue;  // of the header, and unused
    for (const char flip : {'\x01', '\x80'}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      folder.Write("b.tokens", damaged);
      const std::string found = WhatIsRead(folder / "b.tokens", samples, "notes");
      INFO("byte " << i << ": " << found);
      CHECK(absl::StartsWith(found, "DATA_LOSS"));
      CHECK(absl::StrContains(found, "b.tokens"));
    }
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    folder.Write("b.tokens", whole.substr(0, size));
    CHECK(absl::StartsWith(WhatIsRead(folder / "b.tokens", samples, "notes"), "DATA_LOSS"));
  }
  CHECK(absl::IsNotFound(TokenShard::Open(folder / "none.tokens").status()));
}

}  // namespace
}  // namespace distill
