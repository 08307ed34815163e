// Trials out of the files that tests/golden/hdf5_golden.py wrote, from a disk and from a real S3 server.
#include "libdistill/data/hdf5_trials.h"

#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"
#include "tests/support/s3.h"
#include "tests/support/temp_folder.h"

namespace distill::testing {
namespace {

const std::string kGolden = GoldenFolder() + "/hdf5/";
const Hdf5TrialsOptions kTrials = {.datasets = {"input_features", "seq_class_ids"},
                                   .attributes = {"seq_len", "sentence_label", "threshold", "no_such"},
                                   .prefix = "trial_"};

template <typename T>
std::vector<T> ValuesOf(const Sample& sample, const std::string& name) {
  const auto values = sample.Get<T>(name);
  INFO(values.status());
  REQUIRE(values.ok());
  return {values->begin(), values->end()};
}

// Each trial as h5py says it is; `files` are golden files, in order.
void CheckTrials(const Hdf5Trials& trials, const std::vector<std::string>& golden) {
  REQUIRE(trials.size() == static_cast<int64_t>(12 * golden.size()));
  for (int64_t i = 0; i < trials.size(); ++i) {
    const auto wanted = nlohmann::json::parse(*ReadFile(kGolden + golden[static_cast<size_t>(i / 12)] + ".json"));
    const auto sample = trials.Read(i);
    INFO(i << ": " << sample.status());
    REQUIRE(sample.ok());
    CHECK(sample->id == i);
    CHECK(trials.file_of(i) == i / 12);
    CHECK(trials.name_of(i) == absl::StrCat("/trial_00", i % 12 < 10 ? "0" : "", i % 12));
    for (const auto& dataset : wanted["datasets"]) {
      const std::string name = dataset["name"];
      if (name == trials.name_of(i) + "/input_features") {
        CHECK(ValuesOf<float>(*sample, "input_features") == dataset["values"].get<std::vector<float>>());
        CHECK(sample->tensors.at("input_features").shape() == dataset["shape"].get<std::vector<int64_t>>());
        CHECK(*trials.Length(i) == dataset["shape"][0].get<int64_t>());
      } else if (name == trials.name_of(i) + "/seq_class_ids") {
        CHECK(ValuesOf<int32_t>(*sample, "seq_class_ids") == dataset["values"].get<std::vector<int32_t>>());
      }
    }
    const auto& attributes = wanted["attributes"][trials.name_of(i)];
    CHECK(ValuesOf<int64_t>(*sample, "seq_len") == std::vector<int64_t>{attributes["seq_len"].get<int64_t>()});
    CHECK(ValuesOf<double>(*sample, "threshold") == std::vector<double>{-4.5});
    const std::vector<uint8_t> text = ValuesOf<uint8_t>(*sample, "sentence_label");
    CHECK(std::string(text.begin(), text.end()) == attributes["sentence_label"].get<std::string>());
    CHECK(sample->tensors.size() == 5);
  }
}

TEST_CASE("trials of several HDF5 files are samples, in order of files and names") {
  const std::vector<std::string> golden = {"trials_earliest_all", "trials_v110_plain", "trials_v108_gzip"};
  std::vector<std::string> files;
  for (const std::string& name : golden) files.push_back(kGolden + name + ".hdf5");
  const auto trials = Hdf5Trials::Open(files, kTrials);
  INFO(trials.status());
  REQUIRE(trials.ok());
  CheckTrials(**trials, golden);
  CHECK((*trials)->Read(36).status().code() == absl::StatusCode::kOutOfRange);
  const std::string fingerprint = *(*trials)->Fingerprint();
  CHECK(absl::StartsWith(fingerprint, "36 trials of 3 HDF5 files with XXH3 "));
  CHECK(*(*Hdf5Trials::Open(files, kTrials))->Fingerprint() == fingerprint);
  std::swap(files[0], files[1]);
  CHECK(*(*Hdf5Trials::Open(files, kTrials))->Fingerprint() != fingerprint);
}

TEST_CASE("a file without trials, or a trial without a data set, is named") {
  const auto none = Hdf5Trials::Open({kGolden + "types_earliest.hdf5"}, kTrials);
  CHECK(
      absl::StrContains(none.status().message(), "types_earliest.hdf5: has no group whose name begins with 'trial_'"));
  const auto trials = Hdf5Trials::Open({kGolden + "trials_earliest_all.hdf5"}, {.datasets = {"inputs"}});
  REQUIRE(trials.ok());
  CHECK(absl::StrContains((*trials)->Read(3).status().message(),
                          "trials_earliest_all.hdf5: /trial_0003/inputs: there is no /trial_0003/inputs"));
}

TEST_CASE("several threads read trials at once") {
  const auto trials = Hdf5Trials::Open({kGolden + "trials_earliest_all.hdf5"}, kTrials);
  REQUIRE(trials.ok());
  std::vector<Sample> expected;
  for (int64_t i = 0; i < 12; ++i) expected.push_back(*(*trials)->Read(i));
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const auto sample = (*trials)->Read(static_cast<int64_t>((i * 7 + static_cast<int>(t)) % 12));
        equal[t] += sample.ok() && sample->tensors == expected[static_cast<size_t>(sample->id)].tensors;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(equal == std::vector<int>(4, 60));
}

TEST_CASE("trials come straight out of S3, over its faults, and a refusal names the file") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string path = server.Bucket() + "/t15.2023.08.11/data_train.hdf5";
  const auto put = [&](const std::string& name) {
    auto file = CreateFile(path);
    REQUIRE(file.ok());
    REQUIRE((*file)->Append(*ReadFile(kGolden + name + ".hdf5")) == absl::OkStatus());
    REQUIRE((*file)->Commit() == absl::OkStatus());
  };
  put("trials_earliest_all");
  server.Fault({{"GET /", "status 503 SlowDown", 1}, {"GET /", "short", 1}});
  const auto trials = Hdf5Trials::Open({path}, kTrials);
  INFO(trials.status());
  REQUIRE(trials.ok());
  CheckTrials(**trials, {"trials_earliest_all"});
  CHECK(server.Log().size() <= 6);  // of a file of less than one block: a HEAD, and the GET with its repetitions
  server.Fault({{"GET /", "status 403 AccessDenied", 9}});
  const auto refused = Hdf5Trials::Open({path}, kTrials);
  INFO(refused.status());
  CHECK(refused.status().code() == absl::StatusCode::kPermissionDenied);
  CHECK(absl::StrContains(refused.status().message(), "data_train.hdf5"));
}

}  // namespace
}  // namespace distill::testing
