// What a brain-to-text model is made of, by the names of rnn_args.yaml; saved beside its weights. Sees no torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/core/describe.h"

namespace distill {

struct BrainModelOptions {
  int64_t n_input_features = 512;  // of a time bin
  int64_t n_units = 1024;
  int64_t n_layers = 5;
  int64_t n_classes = 41;  // with CTC's blank, which is class 0
  bool bidirectional = false;
  double rnn_dropout = 0.4;
  double input_layer_dropout = 0.2;
  int64_t patch_size = 14;  // bins that make one frame of the GRU; 0: each bin is one
  int64_t patch_stride = 4;
  bool smooth_data = true;
  double smooth_kernel_std = 2;
  int64_t smooth_kernel_size = 100;
  std::string sessions;  // a day each, with commas: there is one input layer for each
};

// The days, in order. InvalidArgument: none, or one that comes twice.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> SessionsOf(const BrainModelOptions& options);

// Frames that a recording of so many bins gives; below 1: it is too short.
int64_t FramesOf(const BrainModelOptions& options, int64_t bins);
// The fewest bins that give so many frames.
int64_t BinsFor(const BrainModelOptions& options, int64_t frames);

// The folder's file, "model_options.yaml". Errors as in ReadConfigFile.
inline constexpr char kModelOptionsFile[] = "model_options.yaml";
[[nodiscard]] absl::StatusOr<BrainModelOptions> ReadModelOptions(const std::string& folder);
std::string ModelOptionsToYaml(const BrainModelOptions& options);

template <class V>
void Describe(V& v, BrainModelOptions& o) {
  constexpr FieldLimits kCount = Within(1, 1 << 20);
  v.Group("Model");
  v.Field("n_input_features", o.n_input_features, kCount, "neural features of a time bin").Alias("neural_dim");
  v.Field("n_units", o.n_units, kCount, "units of each layer of the GRU").Similar("hidden", "hidden_size");
  v.Field("n_layers", o.n_layers, Within(1, 100), "layers of the GRU");
  v.Field("n_classes", o.n_classes, Within(2, 1 << 20), "classes with CTC's blank: 41 of phonemes, 1681 of diphones");
  v.Field("bidirectional", o.bidirectional, "a second GRU reads each recording from its end");
  v.Field("rnn_dropout", o.rnn_dropout, Within(0, 1), "of what one layer of the GRU gives the next");
  v.Field("input_layer_dropout", o.input_layer_dropout, Within(0, 1), "of what the day layers give");
  v.Field("patch_size", o.patch_size, Within(0, 1 << 16), "time bins that make one frame of the GRU; 0: each is one");
  v.Field("patch_stride", o.patch_stride, Within(0, 1 << 16), "time bins from one frame to the next");
  v.Field("smooth_data", o.smooth_data, "features are smoothed along time, by a Gaussian kernel");
  v.Field("smooth_kernel_std", o.smooth_kernel_std, FieldLimits{.low = 0, .high = 1000, .excludes_low = true},
          "its standard deviation, in time bins");
  v.Field("smooth_kernel_size", o.smooth_kernel_size, Within(1, 1 << 16), "time bins that it is made over");
  v.Field("sessions", o.sessions, "the days: folders in dataset_dir, each of which gets an input layer of its own")
      .TakesList();
}

}  // namespace distill
