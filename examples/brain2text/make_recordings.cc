// Makes recordings to try brain2text with, in the form of the public ones: FOLDER/SESSION/data_{train,val,test}.hdf5,
// the last one without labels. The same seed gives the same values.
//
//   build/bin/brain2text_recordings runs/brain2text/data
//
// Each phoneme is two patterns of activity, one after the other, for a few bins; sentences are phonemes with pauses
// between. A day's electrodes are mixed and shifted in a way of its own, as after a night in which they have moved.
#include <hdf5.h>

#include <cmath>
#include <cstdio>
#include <numbers>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/config/command_line.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

struct RecordingOptions {
  int64_t days = 3;
  int64_t train_trials = 120, val_trials = 40, test_trials = 12;
  int64_t features = 32;
  int64_t phonemes = 12;
  double noise = 2;
  uint64_t seed = 1;
};

template <class V>
void Describe(V& v, RecordingOptions& o) {
  constexpr FieldLimits kCount = Within(1, 10000);
  v.Group("Recordings");
  v.Field("days", o.days, Within(1, 28), "sessions");
  v.Field("train_trials", o.train_trials, kCount, "sentences of each in data_train.hdf5");
  v.Field("val_trials", o.val_trials, kCount, "in data_val.hdf5");
  v.Field("test_trials", o.test_trials, kCount, "in data_test.hdf5");
  v.Field("features", o.features, kCount, "neural features of a time bin");
  v.Field("phonemes", o.phonemes, Within(2, 1000), "classes besides the blank");
  v.Field("noise", o.noise, AtLeast(0), "deviation of what each bin and feature has besides; a pattern's is 1");
  v.Field("seed", o.seed, "of all that is drawn");
}

// An identifier of HDF5's, closed at the end.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }

 private:
  const hid_t id_;
  herr_t (*const close_)(hid_t);
};

float Normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
  return static_cast<float>(radius * std::cos(2 * std::numbers::pi * random.Uniform()));
}

std::vector<float> Normals(Random& random, int64_t count, double deviation) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(deviation) * Normal(random);
  return values;
}

// What all days share, and what each has of its own.
struct Brain {
  std::vector<std::vector<float>> patterns;  // two a phoneme, [features]
  std::vector<std::vector<float>> mixing;    // of each day, [features, features]
  std::vector<std::vector<float>> shifts;    // [features]
};

Brain DrawBrain(const RecordingOptions& options) {
  Random random(options.seed, 0);
  Brain brain;
  const int64_t features = options.features;
  for (int64_t i = 0; i < 2 * options.phonemes; ++i) brain.patterns.push_back(Normals(random, features, 1));
  for (int64_t day = 0; day < options.days; ++day) {
    brain.mixing.push_back(Normals(random, features * features, 0.7 / std::sqrt(static_cast<double>(features))));
    for (int64_t i = 0; i < features; ++i) brain.mixing.back()[static_cast<size_t>(i * features + i)] += 0.7f;
    brain.shifts.push_back(Normals(random, features, 0.5));
  }
  return brain;
}

struct Trial {
  std::vector<float> frames;  // [bins, features]
  std::vector<int32_t> classes;
};

void AddBin(const Brain& brain, int64_t day, const std::vector<float>* pattern, float noise, Random& random,
            Trial& trial) {
  const std::vector<float>& mixing = brain.mixing[static_cast<size_t>(day)];
  const std::vector<float>& shift = brain.shifts[static_cast<size_t>(day)];
  const size_t features = shift.size();
  for (size_t j = 0; j < features; ++j) {
    float value = shift[j] + noise * Normal(random);
    for (size_t i = 0; pattern != nullptr && i < features; ++i) value += (*pattern)[i] * mixing[i * features + j];
    trial.frames.push_back(value);
  }
}

Trial DrawTrial(const RecordingOptions& options, const Brain& brain, int64_t day, Random& random) {
  Trial trial;
  const auto noise = static_cast<float>(options.noise);
  const auto pause = [&](uint64_t most) {
    for (uint64_t bin = 0, bins = 2 + random.Below(most); bin < bins; ++bin)
      AddBin(brain, day, nullptr, noise, random, trial);
  };
  pause(4);
  for (uint64_t n = 0, count = 4 + random.Below(5); n < count; ++n) {
    const uint64_t phoneme = random.Below(static_cast<uint64_t>(options.phonemes));
    trial.classes.push_back(static_cast<int32_t>(phoneme) + 1);
    for (uint64_t half = 0; half < 2; ++half) {
      const std::vector<float>& pattern = brain.patterns[2 * phoneme + half];
      for (uint64_t bin = 0, bins = 3 + random.Below(3); bin < bins; ++bin)
        AddBin(brain, day, &pattern, noise, random, trial);
    }
    pause(2);
  }
  return trial;
}

absl::Status WriteData(hid_t group, const char* name, hid_t type, const std::vector<hsize_t>& shape,
                       const void* values) {
  const Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
  const Handle data(H5Dcreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  if (data >= 0 && H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("HDF5 cannot write ", name));
}

absl::Status WriteNumber(hid_t group, const char* name, int64_t value) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(H5Acreate2(group, name, H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_INT64, &value) >= 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("HDF5 cannot write ", name));
}

absl::Status WriteTrial(hid_t file, const Trial& trial, int64_t number, int64_t features, bool has_labels) {
  constexpr size_t kPaddedTo = 32;  // as the public files pad their classes, with 0
  const Handle group(
      H5Gcreate2(file, absl::StrFormat("trial_%04d", number).c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  const auto bins = static_cast<hsize_t>(trial.frames.size()) / static_cast<hsize_t>(features);
  DISTILL_RETURN_IF_ERROR(WriteData(group, "input_features", H5T_NATIVE_FLOAT, {bins, static_cast<hsize_t>(features)},
                                    trial.frames.data()));
  DISTILL_RETURN_IF_ERROR(WriteNumber(group, "n_time_steps", static_cast<int64_t>(bins)));
  DISTILL_RETURN_IF_ERROR(WriteNumber(group, "block_num", number / 40));
  DISTILL_RETURN_IF_ERROR(WriteNumber(group, "trial_num", number % 40));
  if (!has_labels) return absl::OkStatus();
  std::vector<int32_t> padded = trial.classes;
  padded.resize(kPaddedTo);
  DISTILL_RETURN_IF_ERROR(WriteNumber(group, "seq_len", static_cast<int64_t>(trial.classes.size())));
  return WriteData(group, "seq_class_ids", H5T_NATIVE_INT32, {kPaddedTo}, padded.data());
}

absl::Status WriteSession(const RecordingOptions& options, const Brain& brain, int64_t day, const std::string& folder) {
  DISTILL_RETURN_IF_ERROR(MakeFolder(folder));
  const std::pair<const char*, int64_t> splits[] = {
      {"train", options.train_trials}, {"val", options.val_trials}, {"test", options.test_trials}};
  uint64_t stream = 1 + 3 * static_cast<uint64_t>(day);
  for (const auto& [split, count] : splits) {
    Random random(options.seed, stream++);
    const std::string path = JoinPath(folder, absl::StrCat("data_", split, ".hdf5"));
    const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    if (file < 0) return absl::InternalError(absl::StrCat(path, ": HDF5 cannot make the file"));
    for (int64_t number = 0; number < count; ++number) {
      const Trial trial = DrawTrial(options, brain, day, random);
      DISTILL_RETURN_IF_ERROR(
          Annotate(WriteTrial(file, trial, number, options.features, std::string(split) != "test"), path));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteRecordings(const RecordingOptions& options, const std::string& folder) {
  const Brain brain = DrawBrain(options);
  for (int64_t day = 0; day < options.days; ++day) {
    const std::string session = absl::StrFormat("demo.2024.01.%02d", day + 1);
    DISTILL_RETURN_IF_ERROR(WriteSession(options, brain, day, JoinPath(folder, session)));
  }
  std::printf("%lld sessions of %lld trials are in %s\n", static_cast<long long>(options.days),
              static_cast<long long>(options.train_trials + options.val_trials + options.test_trials), folder.c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::string> ParseAndWrite(int argc, char** argv) {
  RecordingOptions options;
  const Description settings, flags = DescriptionOf(options);
  DISTILL_ASSIGN_OR_RETURN(const CommandLine line,
                           ParseCommandLine(argc, argv,
                                            {.name = "brain2text_recordings",
                                             .about = "Makes recordings to try brain2text with.",
                                             .positional = "FOLDER"},
                                            settings, flags));
  if (!line.message.empty()) return line.message;
  DISTILL_RETURN_IF_ERROR(flags.Check());
  if (line.positional.size() != 1) return absl::InvalidArgumentError("name the folder that is to be made");
  DISTILL_RETURN_IF_ERROR(WriteRecordings(options, line.positional[0]));
  return std::string();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  const auto done = distill::ParseAndWrite(argc, argv);
  if (done.ok()) std::fputs(done->c_str(), stdout);
  if (!done.ok()) std::fprintf(stderr, "error: %s\n", std::string(done.status().message()).c_str());
  return done.ok() ? 0 : 2;
}
