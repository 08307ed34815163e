// What is done to a recording in training, as the public brain-to-text baseline does it, but drawn for each trial by
// itself: a function of seed, epoch and trial, whatever batch, rank or thread it is made by. Sees no torch.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/core/describe.h"

namespace distill {

struct AugmentationOptions {
  double white_noise_std = 1;
  double constant_offset_std = 0.2;
  double random_walk_std = 0;
  int64_t random_walk_axis = -1;  // of [trials, bins, features]: along features (-1, 2) or along time (1, -2)
  double static_gain_std = 0;
  int64_t random_cut = 3;
};

// A trial's features, bin by bin.
struct NeuralFrames {
  std::vector<float> values = {};  // [bins, features]
  int64_t bins = 0;
  int64_t features = 0;
};

// In this order: features are mixed by the unit matrix plus noise (static gain), white noise for each bin and feature,
// an offset for each feature, a random walk, and 0 to random_cut - 1 bins cut off the front, but never so many that
// fewer than `least_bins` stay.
void Augment(const AugmentationOptions& options, uint64_t seed, int64_t epoch, int64_t sample, int64_t least_bins,
             NeuralFrames& frames);

template <class V>
void Describe(V& v, AugmentationOptions& o) {
  v.Group("Augmentation");
  v.Field("white_noise_std", o.white_noise_std, AtLeast(0), "noise of each bin and feature");
  v.Field("constant_offset_std", o.constant_offset_std, AtLeast(0), "an offset of each feature, over a trial");
  v.Field("random_walk_std", o.random_walk_std, AtLeast(0), "steps of a random walk");
  v.Field("random_walk_axis", o.random_walk_axis, Within(-2, 2),
          "of [trials, bins, features]: -1 or 2 along features, as in rnn_args.yaml; 1 or -2 along time");
  v.Field("static_gain_std", o.static_gain_std, AtLeast(0), "features are mixed by a unit matrix with such noise");
  v.Field("random_cut", o.random_cut, Within(0, 1 << 16), "fewer bins than this are cut off the front");
}

}  // namespace distill
