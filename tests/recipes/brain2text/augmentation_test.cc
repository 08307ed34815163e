#include "examples/brain2text/augmentation.h"

#include <cmath>
#include <map>

#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr AugmentationOptions kNothing = {.white_noise_std = 0, .constant_offset_std = 0, .random_cut = 0};

NeuralFrames Zeros(int64_t bins, int64_t features) {
  return {std::vector<float>(static_cast<size_t>(bins * features)), bins, features};
}

NeuralFrames Augmented(const AugmentationOptions& options, NeuralFrames frames, uint64_t seed = 1, int64_t epoch = 0,
                       int64_t sample = 0, int64_t least_bins = 1) {
  Augment(options, seed, epoch, sample, least_bins, frames);
  return frames;
}

struct Moments {
  double mean = 0, variance = 0, fourth = 0;
};
Moments MomentsOf(const std::vector<float>& values) {
  Moments moments;
  const auto count = static_cast<double>(values.size());
  for (const float value : values) moments.mean += value / count;
  for (const float value : values) {
    const double square = (value - moments.mean) * (value - moments.mean);
    moments.variance += square / count;
    moments.fourth += square * square / count;
  }
  return moments;
}

TEST_CASE("without noise and cut frames stay as they are") {
  NeuralFrames frames = Zeros(4, 3);
  frames.values[5] = 2;
  CHECK(Augmented(kNothing, frames).values == frames.values);
}

TEST_CASE("white noise is normal, of the deviation that was asked for, and new in each bin and feature") {
  AugmentationOptions options = kNothing;
  options.white_noise_std = 0.5;
  const NeuralFrames noise = Augmented(options, Zeros(1000, 64));
  const Moments moments = MomentsOf(noise.values);
  CHECK(moments.mean == Approx(0).margin(0.008));          // four deviations of a mean of 64,000
  CHECK(moments.variance == Approx(0.25).epsilon(0.025));  // and of their variance
  CHECK(moments.fourth / (moments.variance * moments.variance) == Approx(3).epsilon(0.03));
  double between_bins = 0, between_features = 0;
  for (size_t i = 64; i < noise.values.size(); ++i) between_bins += noise.values[i] * noise.values[i - 64] / 64000.0;
  for (size_t i = 1; i < noise.values.size(); ++i) between_features += noise.values[i] * noise.values[i - 1] / 64000.0;
  CHECK(between_bins == Approx(0).margin(0.005));
  CHECK(between_features == Approx(0).margin(0.005));
}

TEST_CASE("an offset is the same in all bins of a trial") {
  AugmentationOptions options = kNothing;
  options.constant_offset_std = 0.2;
  const NeuralFrames offset = Augmented(options, Zeros(3, 20000));
  CHECK(std::equal(offset.values.begin(), offset.values.begin() + 20000, offset.values.begin() + 40000));
  CHECK(MomentsOf(offset.values).variance == Approx(0.04).epsilon(0.04));
}

TEST_CASE("a random walk's variance grows along its axis") {
  AugmentationOptions options = kNothing;
  options.random_walk_std = 0.1;
  const auto variance_at = [&](int64_t axis, bool last_bin) {
    options.random_walk_axis = axis;
    std::vector<float> ends;
    for (int64_t sample = 0; sample < 4000; ++sample) {
      const NeuralFrames walk = Augmented(options, Zeros(9, 4), 1, 0, sample);
      ends.push_back(last_bin ? walk.values[8 * 4] : walk.values[3]);
    }
    return MomentsOf(ends).variance;
  };
  for (const int64_t axis : {1, -2}) {
    CHECK(variance_at(axis, /*last_bin=*/true) == Approx(0.09).epsilon(0.1));
    CHECK(variance_at(axis, /*last_bin=*/false) == Approx(0.01).epsilon(0.1));
  }
  for (const int64_t axis : {-1, 2}) {
    CHECK(variance_at(axis, /*last_bin=*/true) == Approx(0.01).epsilon(0.1));
    CHECK(variance_at(axis, /*last_bin=*/false) == Approx(0.04).epsilon(0.1));
  }
}

TEST_CASE("static gain mixes features by one matrix for all bins of a trial") {
  AugmentationOptions options = kNothing;
  options.static_gain_std = 0.3;
  NeuralFrames frames = Zeros(2, 200);
  frames.values[0] = 1;
  frames.values[200] = 2;  // the same direction, twice as long
  const NeuralFrames mixed = Augmented(options, frames);
  std::vector<float> noise;
  for (size_t i = 1; i < 200; ++i) {
    CHECK(mixed.values[200 + i] == Approx(2 * mixed.values[i]).margin(1e-6));
    noise.push_back(mixed.values[i]);
  }
  CHECK(MomentsOf(noise).variance == Approx(0.09).epsilon(0.35));
  CHECK(std::abs(mixed.values[0] - 1) < 1.5);
}

TEST_CASE("fewer than random_cut bins go from the front, each number as often, and none that are needed") {
  AugmentationOptions options = kNothing;
  options.random_cut = 3;
  NeuralFrames frames = Zeros(10, 2);
  for (size_t i = 0; i < frames.values.size(); ++i) frames.values[i] = static_cast<float>(i);
  std::map<int64_t, int> seen;
  for (int64_t sample = 0; sample < 3000; ++sample) {
    const NeuralFrames cut = Augmented(options, frames, 1, 0, sample);
    const int64_t gone = 10 - cut.bins;
    ++seen[gone];
    REQUIRE(cut.values.size() == static_cast<size_t>(cut.bins * 2));
    CHECK(cut.values[0] == static_cast<float>(2 * gone));
  }
  CHECK(seen.size() == 3);
  for (const auto& [gone, times] : seen) CHECK(times == Approx(1000).margin(110));  // four deviations
  for (int64_t sample = 0; sample < 50; ++sample) {
    CHECK(Augmented(options, frames, 1, 0, sample, /*least_bins=*/9).bins >= 9);
    CHECK(Augmented(options, frames, 1, 0, sample, /*least_bins=*/12).bins == 10);
  }
}

TEST_CASE("what is drawn follows from seed, epoch and trial alone") {
  const AugmentationOptions options = {.random_walk_std = 0.1, .static_gain_std = 0.1};
  const auto drawn = [&](uint64_t seed, int64_t epoch, int64_t sample) {
    return Augmented(options, Zeros(8, 5), seed, epoch, sample).values;
  };
  const std::vector<float> first = drawn(1, 2, 3);
  CHECK(drawn(1, 2, 3) == first);
  CHECK(drawn(2, 2, 3) != first);
  CHECK(drawn(1, 3, 3) != first);
  CHECK(drawn(1, 2, 4) != first);
}

}  // namespace
}  // namespace distill
