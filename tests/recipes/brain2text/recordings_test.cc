// Recordings that h5py has written (tests/golden/brain2text_golden.py), good ones and those that are refused.
#include "examples/brain2text/recordings.h"

#include <set>

#include "examples/brain2text/brain_batches.h"
#include "examples/brain2text/drawn_trials.h"
#include "libdistill/core/status_macros.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

namespace distill {
namespace {

using Labels = BrainRecordings::Labels;

Brain2TextOptions TinyRecordings(const std::string& name) {
  Brain2TextOptions options;
  options.dataset_dir = absl::StrCat(GoldenFolder(), "/brain2text/recordings/", name);
  options.model.n_input_features = 5;
  options.model.n_classes = 7;
  options.model.patch_size = 4;
  options.model.patch_stride = 2;
  options.model.sessions = "t15.2023.08.11";
  return options;
}

absl::StatusOr<std::shared_ptr<BrainRecordings>> OpenThem(const std::string& name, const std::string& split = "train",
                                                          Labels labels = Labels::kNeeded) {
  return BrainRecordings::Open(TinyRecordings(name), split, {}, labels);
}

Sample ReadFirst(const BrainRecordings& recordings) {
  auto sample = recordings.Read(0);
  INFO(sample.status());
  REQUIRE(sample.ok());
  return *std::move(sample);
}

TEST_CASE("a trial is its features, its targets and its day, with and without attributes that say how many") {
  for (const char* name : {"good", "without_attributes", "int64"}) {
    INFO(name);
    const auto recordings = OpenThem(name);
    INFO(recordings.status());
    REQUIRE(recordings.ok());
    CHECK((*recordings)->size() == 2);
    CHECK((*recordings)->name_of(1) == "trial_0001");
    const Sample sample = ReadFirst(**recordings);
    CHECK(sample.Find("features")->shape() == std::vector<int64_t>{40, 5});
    const auto targets = *sample.Get<int64_t>("targets");
    CHECK(std::vector<int64_t>(targets.begin(), targets.end()) == std::vector<int64_t>{1, 2, 2});
    CHECK((*sample.Get<int64_t>("day"))[0] == 0);
  }
  const auto shorter = OpenThem("shorter");
  REQUIRE(shorter.ok());
  CHECK(ReadFirst(**shorter).Find("features")->shape() == std::vector<int64_t>{30, 5});
}

TEST_CASE("a subset of the features is read in its order") {
  Brain2TextOptions options = TinyRecordings("good");
  const auto whole = BrainRecordings::Open(options, "train", {}, Labels::kNeeded);
  options.feature_subset = "4, 0";
  options.model.n_input_features = 2;
  const auto subset = BrainRecordings::Open(options, "train", {}, Labels::kNeeded);
  INFO(subset.status());
  REQUIRE(subset.ok());
  const Sample of_subset = ReadFirst(**subset), of_whole = ReadFirst(**whole);
  const auto some = *of_subset.Get<float>("features"), all = *of_whole.Get<float>("features");
  REQUIRE(some.size() == 80);
  for (size_t bin = 0; bin < 40; ++bin) {
    CHECK(some[2 * bin] == all[5 * bin + 4]);
    CHECK(some[2 * bin + 1] == all[5 * bin]);
  }
  options.feature_subset = "4, 5";
  CHECK_THAT(std::string(BrainRecordings::Open(options, "train", {}, Labels::kNeeded).status().message()),
             Catch::Contains("feature_subset: there are 5 features"));
}

TEST_CASE("a split without labels is read where they are not needed, and refused where they are") {
  const auto test = OpenThem("good", "test", Labels::kWhereTheyAre);
  INFO(test.status());
  REQUIRE(test.ok());
  CHECK_FALSE((*test)->has_labels());
  CHECK(ReadFirst(**test).Get<int64_t>("targets")->empty());
  CHECK((*OpenThem("good", "val", Labels::kWhereTheyAre))->has_labels());
  const absl::Status refused = OpenThem("no_labels", "val").status();
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("data_val.hdf5, trial_0000: the split 'val' needs input_features and the labels "
                             "seq_class_ids"));
}

TEST_CASE("what is wrong with a recording is said with its file and trial, before training begins") {
  const std::pair<const char*, const char*> cases[] = {
      {"other_features", "trial_0000: input_features is float32 [40, 6], and n_input_features is 5"},
      {"class_too_high", "trial_0000: seq_class_ids has class 7: with n_classes 7 they are 1 to 6"},
      {"class_too_low", "trial_0000: seq_class_ids has class 0"},
      {"too_long", "14 bins give 6 frames (patch_size 4, patch_stride 2), and its 5 targets need 8"},
      {"too_short", "3 bins give 0 frames"},
      {"steps_beyond", "n_time_steps is 41, and input_features has 40 bins"},
      {"count_beyond", "seq_len is 21, and seq_class_ids has 20 numbers"},
      {"no_hdf5", "its bytes are not HDF5"},
      {"nothing", "there is no such file: each of `sessions` needs one in dataset_dir"}};
  for (const auto& [name, text] : cases) {
    const absl::Status refused = OpenThem(name).status();
    INFO(name << ": " << refused);
    CHECK_THAT(std::string(refused.message()), Catch::Contains(text));
    CHECK_THAT(std::string(refused.message()), Catch::Contains("t15.2023.08.11/data_train.hdf5"));
  }
  const absl::Status no_val = OpenThem("no_val", "val").status();
  CHECK(absl::IsNotFound(no_val));
  CHECK_THAT(std::string(no_val.message()), Catch::Contains("dataset_probability_val"));
}

TEST_CASE("sessions without held-out data are not looked for") {
  Brain2TextOptions options = TinyRecordings("good");
  options.model.sessions = "t15.2023.08.11,t15.2099.01.01";
  const auto one = BrainRecordings::Open(options, "val", {true, false}, Labels::kNeeded);
  INFO(one.status());
  CHECK(one.ok());
  CHECK_THAT(std::string(BrainRecordings::Open(options, "val", {false, true}, Labels::kNeeded).status().message()),
             Catch::Contains("t15.2099.01.01/data_val.hdf5: there is no such file"));
  CHECK_THAT(std::string(BrainRecordings::Open(options, "val", {false, false}, Labels::kNeeded).status().message()),
             Catch::Contains("no session has data of the split 'val'"));
}

TEST_CASE("frames to spell a target are one a class, and a blank between equal ones") {
  CHECK(FramesToSpell({}) == 0);
  CHECK(FramesToSpell({1, 2, 3}) == 3);
  CHECK(FramesToSpell({1, 1, 1, 2}) == 6);
}

// Trials whose number is their only value, so that a test sees which were drawn.
std::shared_ptr<DrawnTrials> DrawFrom(const std::vector<int64_t>& trials_of_days, const DrawOptions& options) {
  std::vector<Sample> samples;
  std::vector<std::vector<int64_t>> by_day;
  for (const int64_t count : trials_of_days) {
    by_day.emplace_back();
    for (int64_t i = 0; i < count; ++i) {
      by_day.back().push_back(static_cast<int64_t>(samples.size()));
      samples.push_back({.tensors = {{"day", HostTensor(std::vector<int64_t>{static_cast<int64_t>(by_day.size())})}}});
    }
  }
  auto drawn = DrawnTrials::Create(MakeDataset(std::move(samples)), by_day, options);
  INFO(drawn.status());
  REQUIRE(drawn.ok());
  return *drawn;
}

TEST_CASE("each batch has trials of days_per_batch days, evenly, and all days come in time") {
  const std::vector<int64_t> days = {20, 0, 3, 7, 50};
  const auto drawn = DrawFrom(days, {.batch_size = 10, .days_per_batch = 3, .seed = 5});
  std::set<int64_t> seen;
  std::map<int64_t, int> of_day;
  for (int64_t batch = 0; batch < 400; ++batch) {
    std::map<int64_t, int> counts;
    for (int64_t row = 0; row < 10; ++row) {
      const auto sample = drawn->Read(batch * 10 + row);
      REQUIRE(sample.ok());
      CHECK(sample->id == batch * 10 + row);
      ++counts[(*sample->Get<int64_t>("day"))[0]];
    }
    CHECK(counts.size() == 3);
    for (const auto& [day, count] : counts) {
      CHECK((count >= 2 && count <= 4));
      ++of_day[day];
    }
    for (const int64_t trial : drawn->Batch(batch)) seen.insert(trial);
  }
  CHECK(seen.size() == 80);
  CHECK(of_day.size() == 4);
  for (const auto& [day, batches] : of_day) CHECK(batches == Approx(300).margin(36));  // four deviations
}

TEST_CASE("batches follow from the seed, and too few days or trials are refused") {
  const DrawOptions options = {.batch_size = 6, .days_per_batch = 2, .seed = 5};
  const auto one = DrawFrom({9, 9, 9}, options), same = DrawFrom({9, 9, 9}, options);
  DrawOptions other_seed = options;
  other_seed.seed = 6;
  CHECK(one->Batch(7) == same->Batch(7));
  CHECK(one->Batch(7) != one->Batch(8));
  CHECK(one->Batch(7) != DrawFrom({9, 9, 9}, other_seed)->Batch(7));
  CHECK(*one->Fingerprint() != *DrawFrom({9, 9, 9}, other_seed)->Fingerprint());
  const auto refused = [](std::vector<std::vector<int64_t>> by_day, const DrawOptions& how) {
    return std::string(DrawnTrials::Create(MakeDataset({{}, {}}), std::move(by_day), how).status().message());
  };
  CHECK_THAT(refused({{0, 1}, {}}, options), Catch::Contains("days_per_batch is 2, and there are 1 sessions"));
  CHECK_THAT(refused({{0}, {1}}, {.batch_size = 1, .days_per_batch = 2}), Catch::Contains("a batch has only 1 trials"));
}

TEST_CASE("batches of recordings are augmented in training alone, and counted in frames") {
  const auto recordings = OpenThem("good");
  REQUIRE(recordings.ok());
  std::vector<SampleRow> rows = {{ReadFirst(**recordings)}, {*(*recordings)->Read(1)}};
  BrainCollation how = {.model = TinyRecordings("good").model};
  const auto plain = CollateRecordings({rows, 0}, how);
  INFO(plain.status());
  REQUIRE(plain.ok());
  CHECK(plain->Find("features")->shape() == std::vector<int64_t>{2, 40, 5});
  CHECK(plain->Find("targets")->shape() == std::vector<int64_t>{2, 3});
  CHECK(plain->Count("kl") == 2 * 19);  // (40 - 4) / 2 + 1
  CHECK(plain->Count("ctc") == 2);
  how.augmentation = AugmentationOptions{.random_cut = 30};
  const auto changed = CollateRecordings({rows, 0}, how), again = CollateRecordings({rows, 0}, how),
             later = CollateRecordings({rows, 1}, how);
  REQUIRE(changed.ok());
  CHECK(*changed->Find("features") == *again->Find("features"));
  CHECK_FALSE(*changed->Find("features") == *later->Find("features"));
  CHECK_FALSE(*changed->Find("features") == *plain->Find("features"));
  CHECK(CollateRecordings({{}, 0}, how)->Count("kl") == 0);
}

}  // namespace
}  // namespace distill
