#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libdistill/config/command_line.h"
#include "libdistill/config/config_file.h"
#include "libdistill/config/option_names.h"
#include "libdistill/config/reference.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {

// What a program could be told: each kind of value, in two structs.
enum class Shape { kRound, kSquare };
constexpr EnumNames<Shape, 2> NamesOf(Shape) { return {{{"round", Shape::kRound}, {"square", Shape::kSquare}}}; }

struct SampleLoss {
  double temperature = 2;
  uint64_t seed = 42;
  std::optional<double> power = {};
};

template <class V>
void Describe(V& v, SampleLoss& o) {
  v.Group("Loss");
  v.Field("temperature", o.temperature, Above(0), "of the loss").Alias("tau").Similar("heat");
  v.Field("seed", o.seed, "of shuffles");
  v.Field("shape_kwargs.power", o.power, AtLeast(0), "of the shape");
}

struct Sample {
  std::string name = "x";
  std::string folder = {};
  int64_t steps = -1;
  uint64_t seed = 42;
  bool packing = false;
  double rate = 1e-4;
  absl::Duration timeout = absl::Seconds(300);
  Shape shape = Shape::kRound;
  Switch narrow = Switch::kFalse;
  std::vector<Shape> shapes = {Shape::kRound};
  int64_t buckets = 3;
  SampleLoss loss = {};
};

template <class V>
void Describe(V& v, Sample& o) {
  v.Group("General");
  v.Field("name", o.name, "of the run");
  v.Field("folder", o.folder, "of the run's files").Path();
  v.Field("steps", o.steps, AtLeast(-1), "to make").Alias("max_steps").AliasOf("once", {{"true", "1"}});
  v.Field("seed", o.seed, "of everything");
  v.Field("packing", o.packing, "several in a row");
  v.Field("rate", o.rate, FromUpTo(0, 1), "of learning");
  v.Field("timeout_seconds", o.timeout, Above(0), "to wait");
  v.Field("shape", o.shape, "of the thing").RefuseWord("oval", "an oval is a round thing: write round");
  v.Field("narrow", o.narrow, "half the bits");
  v.Field("shapes", o.shapes, "of all things").RefuseWord("oval", "an oval is a round thing: write round");
  v.Field("buckets", o.buckets, AtLeast(1), "of gradients").InCodeOnly();
  Describe(v, o.loss);
  v.Accept("optim", {"adamw_torch", "adamw"}, "AdamW is the only optimizer");
  v.Note("workers", "there is one thread, whatever it says");
  v.Refuse({"lora_r"}, "adapters are not supported");
  v.Section("dataset", {{"path", "folder"}, {"amount", "steps"}});
  v.Section("training");
  v.Together([&o]() -> absl::Status {
    if (!o.packing || o.steps != 7) return absl::OkStatus();
    return absl::InvalidArgumentError("packing and 7 steps exclude one another");
  });
}

struct SampleFlags {
  bool show_batch = false;
  std::optional<int64_t> ranks = {};
};

template <class V>
void Describe(V& v, SampleFlags& o) {
  v.Group("Instead");
  v.Field("show_batch", o.show_batch, "print one batch");
  v.Field("ranks", o.ranks, AtLeast(1), "to plan for");
}

namespace {

struct Parsed {
  Sample sample;
  SampleFlags flags;
  CommandLine line;
};

absl::StatusOr<Parsed> Parse(std::vector<std::string> arguments, const char* positional = nullptr) {
  std::vector<const char*> argv = {"sample"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  Parsed parsed;
  const Description settings = DescriptionOf(parsed.sample), flags = DescriptionOf(parsed.flags);
  auto line = ParseCommandLine(static_cast<int>(argv.size()), argv.data(), {"sample", "Shows options.", positional},
                               settings, flags);
  if (!line.ok()) return line.status();
  parsed.line = *std::move(line);
  return parsed;
}

std::string ErrorOf(std::vector<std::string> arguments) {
  const auto parsed = Parse(arguments);
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

absl::Status ReadText(const std::string& text, Sample& sample, std::vector<std::string>& notes) {
  const testing::TempFolder folder;
  return ReadConfigFile(folder.Write("some.yaml", text), DescriptionOf(sample), notes);
}

Sample Read(const std::string& text) {
  Sample sample;
  std::vector<std::string> notes;
  CHECK(ReadText(text, sample, notes) == absl::OkStatus());
  return sample;
}

// With the file's path left out.
std::string ErrorOfFile(const std::string& text) {
  Sample sample;
  std::vector<std::string> notes;
  const absl::Status status = ReadText(text, sample, notes);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  const size_t name = status.message().find("some.yaml");
  REQUIRE(name != absl::string_view::npos);
  return std::string(status.message().substr(name + 9));
}

}  // namespace

TEST_CASE("the command line overrides the file, dashes and underscores are the same, and the last one counts") {
  const testing::TempFolder folder;
  const std::string path = folder.Write("good.yaml", "rate: 0.5\npacking: true\nname: file\nseed: 7\n");
  const auto parsed = Parse({"--config-file", path, "--rate=0.25", "--steps", "5", "--steps", "-1", "--packing",
                             "false", "--timeout-seconds", "1.5", "--shape", "square"});
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  CHECK(parsed->sample.rate == 0.25);
  CHECK(parsed->sample.steps == -1);
  CHECK_FALSE(parsed->sample.packing);
  CHECK(parsed->sample.name == "file");
  CHECK(parsed->sample.timeout == absl::Seconds(1.5));
  CHECK(parsed->sample.shape == Shape::kSquare);
}

TEST_CASE("a config file may be given without a name, where no further arguments are expected") {
  const testing::TempFolder folder;
  const std::string path = folder.Write("my.yaml", "rate: 0.5\nseed: 7\n");
  const auto parsed = Parse({path, "--rate", "0.25"});
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  CHECK(parsed->sample.rate == 0.25);
  CHECK(parsed->sample.seed == 7);
  CHECK(Parse({path}, "NAME")->line.positional == std::vector<std::string>{path});
  CHECK(ErrorOf({path, "--config_file", path}) == "unexpected argument '" + path + "'; options are --name value");
  CHECK(absl::StrContains(Parse({folder / "none.yml"}).status().message(), "none.yml"));
}

TEST_CASE("a path begins at home with ~, on the command line and in files") {
  const char* home = std::getenv("HOME");
  REQUIRE(home != nullptr);
  CHECK(Parse({"--folder=~/run"})->sample.folder == std::string(home) + "/run");
  CHECK(Read("folder: '~'\n").folder == home);
  CHECK(Read("folder: ~ada/run\n").folder == "~ada/run");
  CHECK(Read("name: ~/run\n").name == "~/run");  // is no path
}

TEST_CASE("--help KEY tells of one option, by any of its names") {
  const std::string help = Parse({"--help", "temperature"})->line.message;
  CHECK(absl::StartsWith(help, "--temperature "));
  for (const char* part : {"values: ", "default: ", "also: "}) CHECK(absl::StrContains(help, part));
  CHECK(Parse({"-h", "tau"})->line.message == help);
  CHECK(absl::StartsWith(Parse({"--help", "show-batch"})->line.message, "--show_batch "));
  CHECK(ErrorOf({"--help", "tempratur"}) == "unknown option '--tempratur'; did you mean '--temperature'?");
}

TEST_CASE("a name that two structs describe sets both of their fields") {
  CHECK(Read("seed: 7\n").seed == 7);
  CHECK(Read("seed: 7\n").loss.seed == 7);
}

TEST_CASE("a JSON file is read as a YAML one") {
  const Sample sample = Read(
      "{\n\t\"folder\": \"s\",\n  \"seed\": 7, \"packing\": true, \"steps\": null, \"shapes\": [\"square\", "
      "\"round\"],\n"
      "  \"name\": \"{% for m in messages %}\\n\\u00e4{% endfor %}\"}\n");
  CHECK(sample.folder == "s");
  CHECK(sample.packing);
  CHECK(sample.steps == -1);
  CHECK(sample.shapes == std::vector{Shape::kSquare, Shape::kRound});
  CHECK(sample.name == "{% for m in messages %}\n\u00e4{% endfor %}");
}

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
        ":1: folder: s3:// paths are not supported yet: s3://bucket/x; copy it to a local folder");
  CHECK(ErrorOfFile("buckets: 3\n") == ":1: unknown key 'buckets'; --help lists all options");
  CHECK(absl::StartsWith(ErrorOfFile("rate: [1,\n"), ":"));
}

TEST_CASE("a config file that is not there is an error that names it") {
  const auto parsed = Parse({"--config_file", "/nonexistent/x.yaml"});
  CHECK(parsed.status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(parsed.status().message(), "/nonexistent/x.yaml"));
}

TEST_CASE("a map in a file holds flat names, and names of its own") {
  const Sample sample = Read(
      "dataset:\n  path: data\n  amount: 12\n  seed: 3\ntraining:\n  rate: 0.5\n  tau: 4\n  shape_kwargs:\n"
      "    power: 2\n");
  CHECK(sample.folder == "data");
  CHECK(sample.steps == 12);
  CHECK(sample.seed == 3);
  CHECK(sample.rate == 0.5);
  CHECK(sample.loss.temperature == 4);
  CHECK(sample.loss.power == 2);
  CHECK(Read("dataset: null\nshape_kwargs: null\n").folder.empty());
}

TEST_CASE("errors in a map name the map, the key and the line") {
  CHECK(ErrorOfFile("dataset:\n  pth: x\n") == ":2: dataset: unknown key 'pth'; did you mean 'path'?");
  CHECK(ErrorOfFile("training:\n  seed: 2\n  rate: 9\n") ==
        ":3: training.rate (rate): must be at least 0 and below 1, not 9");
  CHECK(ErrorOfFile("seed: 1\ndataset:\n  seed: 1\n") == ":3: seed (as dataset.seed) is given twice, first in line 1");
  CHECK(ErrorOfFile("shape_kwargs:\n  powr: 2\n") ==
        ":2: unknown key 'shape_kwargs.powr'; did you mean 'shape_kwargs.power'?");
  CHECK(ErrorOfFile("training: fast\n") == ":1: training: expected a map, 'name: value' lines");
  CHECK(ErrorOfFile("trainin:\n  seed: 2\n") == ":1: unknown key 'trainin'; did you mean 'training'?");
}

TEST_CASE("a map may stand on the command line, over the file's") {
  const testing::TempFolder folder;
  const std::string path = folder.Write("good.yaml", "shape_kwargs: {power: 3}\n");
  CHECK(Parse({"--config_file", path})->sample.loss.power == 3);
  CHECK(Parse({"--config_file", path, "--shape_kwargs", "{\"power\": 2}"})->sample.loss.power == 2);
  CHECK(Parse({"--shape-kwargs.power=1"})->sample.loss.power == 1);
  CHECK(ErrorOf({"--shape_kwargs", "{power: -1}"}) == "shape_kwargs.power: must be at least 0, not -1");
  CHECK(absl::StrContains(ErrorOf({"--shape_kwargs", "fast"}), "--shape_kwargs: expected a map, {name: value, ...}"));
}

TEST_CASE("errors of the command line name the option") {
  CHECK(ErrorOf({"--tempratur", "2"}) == "unknown option '--tempratur'; did you mean '--temperature'?");
  CHECK(ErrorOf({"--show_bach"}) == "unknown option '--show_bach'; did you mean '--show_batch'?");
  CHECK(ErrorOf({"--wizardry", "2"}) == "unknown option '--wizardry'; --help lists all options");
  CHECK(ErrorOf({"--heat", "2"}) ==
        "unknown option '--heat'; here it is '--temperature' (--help says what that takes)");
  CHECK(ErrorOf({"--rate", "two"}) == "--rate: expected a number, not 'two'");
  CHECK(ErrorOf({"--rate"}) == "--rate: expected a value");
  CHECK(ErrorOf({"--rate", "nan"}) == "--rate: expected a number, not 'nan'");
  CHECK(ErrorOf({"stray"}) == "unexpected argument 'stray'; options are --name value");
  CHECK(ErrorOf({"--ranks", "0"}) == "--ranks: must be at least 1, not 0");
  CHECK(Parse({"stray", "--rate", "0"}, "NAME")->line.positional == std::vector<std::string>{"stray"});
}

TEST_CASE("what other tools call an option is accepted where it means the same") {
  CHECK(Parse({"--tau", "3"})->sample.loss.temperature == 3);
  CHECK(Parse({"--max_steps=4"})->sample.steps == 4);
  CHECK(Parse({"--once"})->sample.steps == 1);
  CHECK(ErrorOf({"--once", "false"}) == "--once: must be one of true, not 'false'");
  CHECK(ErrorOfFile("tau: 0\n") == ":1: tau (temperature): must be above 0, not 0");
  CHECK(ErrorOfFile("tau: 1\ntemperature: 1\n") == ":2: temperature is given twice, first in line 1");
}

TEST_CASE("a name of other tools is accepted for what happens anyway, noted, or refused with the reason") {
  CHECK(Parse({"--optim", "adamw_torch"}).ok());
  CHECK(ErrorOf({"--optim", "sgd"}) ==
        "--optim: sgd: AdamW is the only optimizer (only adamw_torch, adamw asks for what happens here)");
  CHECK(ErrorOfFile("\noptim: sgd\n") ==
        ":2: optim: sgd: AdamW is the only optimizer (only adamw_torch, adamw asks for what happens here)");
  CHECK(ErrorOfFile("lora_r: 8\n") == ":1: lora_r: 8: adapters are not supported");
  CHECK(Read("lora_r: null\noptim: null\n").steps == -1);
  CHECK(Parse({"--workers", "4"})->line.notes ==
        std::vector<std::string>{"workers: 4: there is one thread, whatever it says"});
  Sample sample;
  std::vector<std::string> notes;
  CHECK(ReadText("workers: 4\n", sample, notes) == absl::OkStatus());
  CHECK(notes.size() == 1);
}

TEST_CASE("what no single option tells is checked when all are set, and so are structs that a program sets") {
  Sample sample{.steps = 7, .packing = true};
  CHECK(CheckOptions(sample).message() == "packing and 7 steps exclude one another");
  CHECK(CheckOptions(Sample{.buckets = 0}).message() == "buckets: must be at least 1, not 0");
  CHECK(CheckOptions(Sample{.rate = 0.0 / 0.0}).code() == absl::StatusCode::kInvalidArgument);
  CHECK(CheckOptions(Sample{.shape = static_cast<Shape>(9)}).message() ==
        "shape: must be one of round, square, not 'the value 9'");
  CHECK(CheckOptions(Sample()) == absl::OkStatus());
}

TEST_CASE("an option that two structs of a program have otherwise is an error, which names both values") {
  Sample sample;
  sample.loss.seed = 43;
  const absl::Status differs = CheckOptions(sample);
  CHECK(absl::IsInvalidArgument(differs));
  CHECK(differs.message() == "seed: is 42 in one struct and 43 in another: give both the same");
  const absl::StatusOr<Parsed> parsed = Parse({"--seed", "7"});
  REQUIRE(parsed.ok());
  CHECK(CheckOptions(parsed->sample) == absl::OkStatus());
}

TEST_CASE("every value goes into a file that reads back to the same values") {
  Sample sample;
  sample.rate = 1.0 / 3;
  sample.name = "{% if \"x\" %}: # \\\r\n\t{% endif %}";
  sample.folder = "a b/c";
  sample.shapes = {Shape::kSquare, Shape::kRound};
  sample.narrow = Switch::kAuto;
  sample.loss.power = 0.1;
  sample.timeout = absl::Milliseconds(1500);
  const std::string text = ValuesToYaml(DescriptionOf(sample).Values(/*with_code_only=*/false));
  const Sample back = Read(text);
  CHECK(ValuesOf(back) == ValuesOf(sample));
  CHECK(back.rate == sample.rate);
  CHECK(ValuesOf(Read(ValuesToYaml(DescriptionOf(sample = Sample()).Values(false)))) == ValuesOf(Sample()));
  CHECK(Read("name: \"null\"\n").name == "null");
}

TEST_CASE("a list is written with commas or as a list, none is empty and all has each") {
  CHECK(Read("shapes: none\n").shapes.empty());
  CHECK(Read("shapes: []\n").shapes.empty());
  CHECK(Read("shapes: all\n").shapes == std::vector{Shape::kRound, Shape::kSquare});
  CHECK(Read("shapes: square, round\n").shapes == std::vector{Shape::kSquare, Shape::kRound});
  CHECK(Parse({"--shapes", "square"})->sample.shapes == std::vector{Shape::kSquare});
}

TEST_CASE("a yes-or-no option is true with and without the word, and a switch as well") {
  CHECK(Parse({"--show-batch"})->flags.show_batch);
  CHECK(Parse({"--show_batch", "true"})->flags.show_batch);
  const auto both = Parse({"--show-batch", "--seed", "7"});
  CHECK((both->flags.show_batch && both->sample.seed == 7));
  CHECK_FALSE(Parse({"--show-batch", "false"})->flags.show_batch);
  CHECK(ErrorOf({"--show-batch", "maybe"}) == "--show_batch: expected true or false, not 'maybe'");
  CHECK(Parse({"--narrow"})->sample.narrow == Switch::kTrue);
  CHECK(Parse({"--narrow", "auto"})->sample.narrow == Switch::kAuto);
  CHECK(Read("narrow: False\n").narrow == Switch::kFalse);
  CHECK(Read("narrow: True\n").narrow == Switch::kTrue);
}

TEST_CASE("--help has every option in its group, and comes before errors") {
  const std::string help = Parse({"--help", "--wizardry"})->line.message;
  for (const char* part : {"General:", "Loss:", "Instead:", "--temperature", "--show_batch", "--config_file",
                           "of the thing: round or square", "--seed INT=42"}) {
    INFO(part << " in\n" << help);
    CHECK(absl::StrContains(help, part));
  }
  CHECK(Parse({"-h"})->line.message == help);
  CHECK_FALSE(absl::StrContains(help, "--buckets"));
  CHECK_FALSE(absl::StrContains(help, "--tau"));
  CHECK(absl::StartsWith(Parse({"--version"})->line.message, "libdistill "));
}

TEST_CASE("the page of documentation has each option with default, values and other names") {
  const std::string page = Parse({"--help_markdown"})->line.message;
  for (const char* line :
       {"| `temperature` | `2` | a number, above 0 | of the loss | `tau` |",
        "| `steps` | `-1` | a whole number, at least -1 | to make | `max_steps`, `once` (true: 1) |",
        "| `shape` | `round` | `round`, `square` | of the thing |  |",
        "| `dataset:` | `path` for `folder`, `amount` for `steps` |",
        "| `optim` | `adamw_torch`, `adamw` | AdamW is the only optimizer |", "| `workers` | any, with a note |"}) {
    INFO(line << " in\n" << page);
    CHECK(absl::StrContains(page, line));
  }
  CHECK_FALSE(absl::StrContains(page, "buckets"));
}

}  // namespace distill
