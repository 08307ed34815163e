#include "examples/brain2text/spelling.h"

#include <cmath>

#include "libdistill/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using Sequence = std::vector<int64_t>;

// Log-probabilities of frames, drawn.
std::vector<float> DrawScores(uint64_t seed, int64_t frames, int64_t classes) {
  Random random(seed);
  std::vector<float> scores;
  for (int64_t t = 0; t < frames; ++t) {
    double sum = 0;
    std::vector<double> weights;
    for (int64_t c = 0; c < classes; ++c) sum += weights.emplace_back(0.05 + random.Uniform());
    for (const double weight : weights) scores.push_back(static_cast<float>(std::log(weight / sum)));
  }
  return scores;
}

Sequence Collapse(const Sequence& path) {
  Sequence spelled;
  for (size_t t = 0; t < path.size(); ++t) {
    if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) spelled.push_back(path[t]);
  }
  return spelled;
}

// Of every sequence, summed over all paths that spell it.
std::map<Sequence, double> AllProbabilities(const std::vector<float>& scores, int64_t frames, int64_t classes) {
  std::map<Sequence, double> found;
  const auto paths = static_cast<int64_t>(std::pow(classes, frames));
  for (int64_t number = 0; number < paths; ++number) {
    Sequence path;
    double log_probability = 0;
    for (int64_t t = 0, rest = number; t < frames; ++t, rest /= classes) {
      path.push_back(rest % classes);
      log_probability += scores[static_cast<size_t>(t * classes + path.back())];
    }
    found[Collapse(path)] += std::exp(log_probability);
  }
  return found;
}

TEST_CASE("greedy spelling takes the best class of each frame, repeats once, blanks not at all") {
  const auto spell = [](const Sequence& best) {
    std::vector<float> scores;
    for (const int64_t c : best) {
      for (int64_t i = 0; i < 4; ++i) scores.push_back(i == c ? 0.0f : -5.0f);
    }
    return SpellGreedily({scores, 4});
  };
  CHECK(spell({0, 1, 1, 0, 1, 2, 2, 3, 0}) == Sequence{1, 1, 2, 3});
  CHECK(spell({0, 0}).empty());
  CHECK(spell({}).empty());
}

TEST_CASE("a beam that holds all prefixes finds the likeliest sequence of all, and its probability") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int64_t frames = 1 + static_cast<int64_t>(seed % 5), classes = 2 + static_cast<int64_t>(seed % 3);
    const std::vector<float> scores = DrawScores(seed, frames, classes);
    const auto all = AllProbabilities(scores, frames, classes);
    const auto best =
        std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    double log_probability = 0;
    const Sequence spelled = SpellByBeam({scores, classes}, /*beam_width=*/10000, &log_probability);
    INFO("seed " << seed);
    CHECK(spelled == best->first);
    CHECK(std::exp(log_probability) == Approx(best->second).epsilon(1e-4));
  }
}

TEST_CASE("beam search sums paths where greedy spelling takes the best one") {
  // Blank is the best of both frames, and yet one 1 is likelier, by three paths.
  const std::vector<float> scores = {std::log(0.6f), std::log(0.4f), std::log(0.6f), std::log(0.4f)};
  CHECK(SpellGreedily({scores, 2}).empty());
  double log_probability = 0;
  CHECK(SpellByBeam({scores, 2}, 4, &log_probability) == Sequence{1});
  CHECK(std::exp(log_probability) == Approx(0.64));
}

TEST_CASE("a narrow beam spells what it has kept") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> scores = DrawScores(seed, 12, 5);
    double narrow = 0, wide = 0;
    SpellByBeam({scores, 5}, 2, &narrow);
    SpellByBeam({scores, 5}, 200, &wide);
    CHECK(narrow <= wide + 1e-9);
  }
}

// Prefix beam search in probabilities, which tries every class for every prefix.
Sequence SpellPlainly(const std::vector<float>& scores, int64_t classes, size_t width) {
  struct Mass {
    double blank = 0, last = 0;
    double total() const { return blank + last; }
  };
  std::map<Sequence, Mass> beam = {{{}, {.blank = 1}}};
  for (size_t at = 0; at < scores.size(); at += static_cast<size_t>(classes)) {
    const auto p = [&](int64_t c) { return std::exp(static_cast<double>(scores[at + static_cast<size_t>(c)])); };
    std::map<Sequence, Mass> next;
    for (const auto& [prefix, mass] : beam) {
      next[prefix].blank += mass.total() * p(0);
      if (!prefix.empty()) next[prefix].last += mass.last * p(prefix.back());
      for (int64_t c = 1; c < classes; ++c) {
        Sequence longer = prefix;
        longer.push_back(c);
        next[longer].last += (!prefix.empty() && prefix.back() == c ? mass.blank : mass.total()) * p(c);
      }
    }
    const auto is_less = [](const auto& a, const auto& b) { return a.second.total() < b.second.total(); };
    while (next.size() > width) next.erase(std::min_element(next.begin(), next.end(), is_less));
    beam = std::move(next);
  }
  const auto is_less = [](const auto& a, const auto& b) { return a.second.total() < b.second.total(); };
  return std::max_element(beam.begin(), beam.end(), is_less)->first;
}

TEST_CASE("a narrow beam that leaves out what cannot be kept spells as one that tries every class") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const int64_t classes = 3 + static_cast<int64_t>(seed % 20), width = 1 + static_cast<int64_t>(seed % 4);
    const std::vector<float> scores = DrawScores(seed, 15, classes);
    INFO("seed " << seed << ", " << classes << " classes, a beam of " << width);
    CHECK(SpellByBeam({scores, classes}, width) == SpellPlainly(scores, classes, static_cast<size_t>(width)));
  }
}

TEST_CASE("diphones spell the phonemes that they lead to") {
  // 1, held, to 2, held, to 3, to the end; and 4 from a blank on.
  const SpelledTrial trial = {.day = 1, .spelled = {1, 42, 43, 84, 85, 126, 123}, .target = {4, 4 * 41 + 4, 4 * 41}};
  const SpelledTrial phonemes = InPhonemes(trial, 1681);
  CHECK((phonemes.day == 1 && phonemes.spelled == Sequence{1, 2, 3} && phonemes.target == Sequence{4}));
  CHECK(InPhonemes(trial, 41).spelled == trial.spelled);
}

TEST_CASE("edit distances are those of rapidfuzz") {
  const auto golden = ReadTensors(GoldenFolder() + "/brain2text/distances.safetensors");
  const auto sequence = [&](const char* name, int64_t row) {
    const int64_t count = golden.at(std::string(name) + "_lengths")[row].item<int64_t>();
    const int64_t* values = golden.at(name)[row].const_data_ptr<int64_t>();
    return Sequence(values, values + count);
  };
  const int64_t pairs = golden.at("distances").size(0);
  REQUIRE(pairs > 200);
  for (int64_t row = 0; row < pairs; ++row) {
    CHECK(EditDistance(sequence("a", row), sequence("b", row)) == golden.at("distances")[row].item<int64_t>());
  }
}

TEST_CASE("error rates are edits over classes, of each day and of all") {
  ErrorRates rates;
  rates.Add({.day = 0, .spelled = {1, 2}, .target = {1, 2, 3, 4}});
  rates.Add({.day = 2, .spelled = {5}, .target = {5}});
  rates.Add({.day = 2, .spelled = {1}, .target = {}});
  CHECK(rates.all.rate() == Approx(3.0 / 5));  // not the mean of the trials' rates
  CHECK(rates.by_day[0].rate() == Approx(0.5));
  CHECK(rates.by_day[2].rate() == Approx(1));
  CHECK(rates.by_day.size() == 2);
}

TEST_CASE("a trial's answer arrives as it was sent, and a damaged one is noticed") {
  const SpelledTrial trial = {.day = 3, .spelled = {1, 40}, .target = {7}};
  const std::string bytes = trial.ToBytes();
  const auto back = SpelledTrial::FromBytes(bytes);
  REQUIRE(back.ok());
  CHECK((back->day == 3 && back->spelled == trial.spelled && back->target == trial.target));
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK(absl::IsDataLoss(SpelledTrial::FromBytes(bytes.substr(0, size)).status()));
  }
  CHECK(absl::IsDataLoss(SpelledTrial::FromBytes(bytes + "x").status()));
}

}  // namespace
}  // namespace distill
