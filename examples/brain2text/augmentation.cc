#include "examples/brain2text/augmentation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "libdistill/core/random.h"

namespace distill {
namespace {

// Normal draws (Box, Muller 1958), two out of each number of the generator.
class NormalDraws {
 public:
  explicit NormalDraws(Random& random) : random_(random) {}
  float Next() {
    if (has_second_) return has_second_ = false, second_;
    const uint64_t bits = random_.Next();
    const float first = (static_cast<float>(bits >> 40) + 1) * 0x1.0p-24f;  // above 0
    const float angle = static_cast<float>(2 * std::numbers::pi) * static_cast<float>(bits & 0xffffff) * 0x1.0p-24f;
    const float radius = std::sqrt(-2 * std::log(first));
    second_ = radius * std::sin(angle);
    has_second_ = true;
    return radius * std::cos(angle);
  }

 private:
  Random& random_;
  float second_ = 0;
  bool has_second_ = false;
};

// x + x noise, for noise [features, features] that every bin shares.
void MixFeatures(NormalDraws& normal, float deviation, NeuralFrames& frames) {
  const int64_t features = frames.features;
  std::vector<float> noise(static_cast<size_t>(features * features));
  for (float& value : noise) value = deviation * normal.Next();
  std::vector<float> mixed = frames.values;
  for (int64_t bin = 0; bin < frames.bins; ++bin) {
    const float* from = frames.values.data() + bin * features;
    float* to = mixed.data() + bin * features;
    for (int64_t i = 0; i < features; ++i) {
      const float* row = noise.data() + i * features;
      for (int64_t j = 0; j < features; ++j) to[j] += from[i] * row[j];
    }
  }
  frames.values = std::move(mixed);
}

void AddOffsets(NormalDraws& normal, float deviation, NeuralFrames& frames) {
  std::vector<float> offsets(static_cast<size_t>(frames.features));
  for (float& offset : offsets) offset = deviation * normal.Next();
  for (size_t i = 0; i < frames.values.size(); ++i) frames.values[i] += offsets[i % offsets.size()];
}

void AddWalk(NormalDraws& normal, float deviation, bool along_time, NeuralFrames& frames) {
  const size_t features = static_cast<size_t>(frames.features);
  std::vector<float> walk(frames.values.size());
  for (size_t i = 0; i < walk.size(); ++i) {
    const bool is_first = along_time ? i < features : i % features == 0;
    const float before = is_first ? 0 : walk[along_time ? i - features : i - 1];
    walk[i] = before + deviation * normal.Next();
    frames.values[i] += walk[i];
  }
}

}  // namespace

void Augment(const AugmentationOptions& options, uint64_t seed, int64_t epoch, int64_t sample, int64_t least_bins,
             NeuralFrames& frames) {
  Random of_epoch(seed, static_cast<uint64_t>(epoch));
  Random random(of_epoch.Next(), static_cast<uint64_t>(sample));
  NormalDraws normal(random);
  if (options.static_gain_std > 0) MixFeatures(normal, static_cast<float>(options.static_gain_std), frames);
  const float white = static_cast<float>(options.white_noise_std);
  if (white > 0) {
    for (float& value : frames.values) value += white * normal.Next();
  }
  if (options.constant_offset_std > 0) AddOffsets(normal, static_cast<float>(options.constant_offset_std), frames);
  if (options.random_walk_std > 0) {
    const bool along_time = options.random_walk_axis == 1 || options.random_walk_axis == -2;
    AddWalk(normal, static_cast<float>(options.random_walk_std), along_time, frames);
  }
  if (options.random_cut <= 0) return;
  const auto drawn = static_cast<int64_t>(random.Below(static_cast<uint64_t>(options.random_cut)));
  const int64_t cut = std::clamp<int64_t>(drawn, 0, std::max<int64_t>(0, frames.bins - least_bins));
  frames.values.erase(frames.values.begin(), frames.values.begin() + cut * frames.features);
  frames.bins -= cut;
}

}  // namespace distill
