// What is wrong with options is said by name and place.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/config/sample.h"

namespace distill {

TEST_CASE("errors of a file name the file, the line and the key") {
  CHECK(ErrorOfFile("seed: 1\ntemperatur: 1e-4\n") == ":2: unknown key 'temperatur'; did you mean 'temperature'?");
  CHECK(ErrorOfFile("seed: 1\n\nrate: many\n") == ":3: rate: expected a number, not 'many'");
  CHECK(ErrorOfFile("steps: 1.5\n") == ":1: steps: expected a whole number, not '1.5'");
  CHECK(ErrorOfFile("packing: maybe\n") == ":1: packing: expected true or false, not 'maybe'");
  CHECK(ErrorOfFile("rate: 1\n") == ":1: rate: must be at least 0 and below 1, not 1");
  CHECK(ErrorOfFile("temperature: 0\n") == ":1: temperature: must be above 0, not 0");
  CHECK(ErrorOfFile("timeout_seconds: 0\n") == ":1: timeout_seconds: must be above 0, not 0");
  CHECK(ErrorOfFile("shape: flat\n") == ":1: shape: must be one of round, square, not 'flat'");
  CHECK(ErrorOfFile("shapes: [round, flat]\n") == ":1: shapes: must be one of round, square, not '[round, flat]'");
  CHECK(ErrorOfFile("shape: oval\n") == ":1: shape: 'oval': an oval is a round thing: write round");
  CHECK(ErrorOfFile("shapes: round,oval\n") == ":1: shapes: 'round,oval': an oval is a round thing: write round");
  CHECK(ErrorOfFile("seed: -1\n") == ":1: seed: expected a whole number, not '-1'");
  CHECK(ErrorOfFile("seed: 1\nseed: 2\n") == ":2: seed is given twice, first in line 1");
  CHECK(ErrorOfFile("wizardry: 2\n") == ":1: unknown key 'wizardry'; --help lists all options");
  CHECK(ErrorOfFile("wizardry:\n  seed: 2\n") == ":1: unknown key 'wizardry'; --help lists all options");
  CHECK(ErrorOfFile("seed: 1\nheat: 2\n") ==
        ":2: unknown key 'heat'; here it is 'temperature' (--help says what that takes)");
  CHECK(ErrorOfFile("rate: [1, 2]\n") == ":1: rate: expected a number, not a list");
  CHECK(ErrorOfFile("rate: {a: 2}\n") == ":1: rate: expected a number, not a map");
  CHECK(ErrorOfFile("folder: s3://bucket/x\n") ==
        ":1: folder: s3:// paths are not supported here yet: s3://bucket/x; copy it to a local folder");
  CHECK(ErrorOfFile("buckets: 3\n") == ":1: unknown key 'buckets'; --help lists all options");
  CHECK(absl::StartsWith(ErrorOfFile("rate: [1,\n"), ":"));
}

TEST_CASE("all that is wrong is said at once, a line each") {
  const testing::TempFolder folder;
  const std::string path =
      folder.Write("bad.yaml", "wizardry: 2\nseed: 1\ntraining:\n  rate: 9\n  lora_r: [{a: 1}]\nranks: 2\n");
  CHECK(ErrorOf({"--config_file", path}) ==
        absl::StrCat(path, ":1: unknown key 'wizardry'; --help lists all options\n",  //
                     path, ":4: training.rate (rate): must be at least 0 and below 1, not 9\n", path,
                     ":5: lora_r: adapters are not supported\n",  //
                     path, ":6: ranks: stands on the command line alone"));
  CHECK(ErrorOf({"--wizardry", "2", "--lora_r", "8"}) ==
        "unknown option '--wizardry'; --help lists all options\n--lora_r: adapters are not supported");
  CHECK(ErrorOfFile("shapes: [{a: 1}]\n") == ":1: a list may hold words and numbers only");
}

TEST_CASE("errors in a map name the map, the key and the line") {
  CHECK(ErrorOfFile("dataset:\n  pth: x\n") == ":2: dataset: unknown key 'pth'; did you mean 'path'?");
  CHECK(ErrorOfFile("training:\n  seed: 2\n  rate: 9\n") ==
        ":3: training.rate (rate): must be at least 0 and below 1, not 9");
  CHECK(ErrorOfFile("seed: 1\ndataset:\n  seed: 2\n") == ":3: seed (as dataset.seed) is given twice, first in line 1");
  CHECK(Read("seed: 1\ndataset:\n  seed: 1\n").seed == 1);  // two names, and the same said
  CHECK(ErrorOfFile("shape_kwargs:\n  powr: 2\n") ==
        ":2: unknown key 'shape_kwargs.powr'; did you mean 'shape_kwargs.power'?");
  CHECK(ErrorOfFile("training: fast\n") == ":1: training: expected a map, 'name: value' lines");
  CHECK(ErrorOfFile("trainin:\n  seed: 2\n") == ":1: unknown key 'trainin'; did you mean 'training'?");
}

TEST_CASE("errors of the command line name the option") {
  CHECK(ErrorOf({"--tempratur", "2"}) == "unknown option '--tempratur'; did you mean '--temperature'?");
  CHECK(ErrorOf({"--show_bach"}) == "unknown option '--show_bach'; did you mean '--show_batch'?");
  CHECK(ErrorOf({"--wizardry", "2"}) == "unknown option '--wizardry'; --help lists all options");
  CHECK(ErrorOf({"--heat", "2"}) ==
        "unknown option '--heat'; here it is '--temperature' (--help says what that takes)");
  CHECK(ErrorOf({"--rate", "two"}) == "--rate: expected a number, not 'two'");
  CHECK(ErrorOf({"--rate"}) == "--rate: expected a value: of learning");
  CHECK(ErrorOf({"--rate", "nan"}) == "--rate: expected a number, not 'nan'");
  CHECK(ErrorOf({"stray"}) == "unexpected argument 'stray'; options are --name value");
  CHECK(ErrorOf({"--ranks", "0"}) == "--ranks: must be at least 1, not 0");
  CHECK(Parse({"stray", "--rate", "0"}, "NAME")->line.positional == std::vector<std::string>{"stray"});
}

TEST_CASE("what no single option tells is checked when all are set, and so are structs that a program sets") {
  SampleOptions sample{.steps = 7, .packing = true};
  CHECK(CheckOptions(sample).message() == "packing and 7 steps exclude one another");
  CHECK(CheckOptions(SampleOptions{.buckets = 0}).message() == "buckets: must be at least 1, not 0");
  CHECK(CheckOptions(SampleOptions{.rate = 0.0 / 0.0}).code() == absl::StatusCode::kInvalidArgument);
  CHECK(CheckOptions(SampleOptions{.shape = static_cast<Shape>(9)}).message() ==
        "shape: must be one of round, square, not 'the value 9'");
  CHECK(CheckOptions(SampleOptions()) == absl::OkStatus());
}

TEST_CASE("an option that two structs of a program have otherwise is an error, which names both values") {
  SampleOptions sample;
  sample.loss.seed = 43;
  const absl::Status differs = CheckOptions(sample);
  CHECK(absl::IsInvalidArgument(differs));
  CHECK(differs.message() == "seed: is 42 in one struct and 43 in another: give both the same");
  const absl::StatusOr<Parsed> parsed = Parse({"--seed", "7"});
  REQUIRE(parsed.ok());
  CHECK(CheckOptions(parsed->sample) == absl::OkStatus());
}

}  // namespace distill
