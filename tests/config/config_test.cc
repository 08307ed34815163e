#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/config/option_names.h"
#include "libdistill/config/reference.h"
#include "tests/config/sample.h"

namespace distill {

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

TEST_CASE("an option of several texts takes one each time, as it is written") {
  const auto parsed = Parse({"--note", "[a, b]", "--steps", "5", "--note=-1, 2", "--note", ""});
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  CHECK(parsed->flags.notes == std::vector<std::string>{"[a, b]", "-1, 2", ""});
  CHECK(parsed->sample.steps == 5);
  CHECK(absl::StrContains(ErrorOf({"--note"}), "--note: expected a value"));
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

TEST_CASE("an option that is true or false takes no value from what follows it but true and false") {
  const auto parsed = Parse({"--packing", "a.txt", "--show-batch", "b.txt"}, "NAME");
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  CHECK(parsed->sample.packing);
  CHECK(parsed->line.positional == std::vector<std::string>{"a.txt", "b.txt"});
  CHECK_FALSE(Parse({"--packing", "False", "a.txt"}, "NAME")->sample.packing);
  CHECK(absl::StrContains(ErrorOf({"--packing", "a.txt"}), "expected true or false"));
}

TEST_CASE("a flag of another tool takes no option for its value") {
  for (const char* flag : {"--pad_to_max_length", "--pad-to-max-length", "--workers"}) {
    const auto parsed = Parse({flag, "--seed", "5"});
    INFO(flag << parsed.status().ToString());
    REQUIRE(parsed.ok());
    CHECK(parsed->sample.seed == 5);
    CHECK(Parse({"--seed", "5", flag})->sample.seed == 5);
    CHECK(Parse({flag, "true", "--seed", "5"})->sample.seed == 5);
  }
  CHECK(ErrorOf({"--optim", "--seed", "5"}) ==
        "--optim: true: AdamW is the only optimizer (only adamw_torch, adamw asks for what happens here)");
  CHECK(absl::StrContains(ErrorOf({"--no_such_thing", "--tempratur", "5"}), "'--temperature'"));
  CHECK(absl::StrContains(ErrorOf({"--lora_r", "--seed", "5"}), "adapters are not supported"));
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

TEST_CASE("--help says what arguments there are beside the options") {
  const std::string with = Parse({"--help"}, "NAME FILE...", "  NAME   of a model\n")->line.message;
  INFO(with);
  CHECK(absl::StrContains(with,
                          "Shows options.\nUsage: sample NAME FILE... [OPTIONS]\n\n  NAME   of a model\n\nOptions:\n"));
  CHECK(absl::StrContains(with, "--rate "));
  CHECK(absl::StrContains(Parse({"--help"})->line.message, "Shows options.\nUsage: sample [OPTIONS]\n\nOptions:\n"));
}

TEST_CASE("a name that two structs describe sets both of their fields") {
  CHECK(Read("seed: 7\n").seed == 7);
  CHECK(Read("seed: 7\n").loss.seed == 7);
}

TEST_CASE("a JSON file is read as a YAML one") {
  const SampleOptions sample = Read(
      "{\n\t\"folder\": \"s\",\n  \"seed\": 7, \"packing\": true, \"steps\": null, \"shapes\": [\"square\", "
      "\"round\"],\n"
      "  \"name\": \"{% for m in messages %}\\n\\u00e4{% endfor %}\"}\n");
  CHECK(sample.folder == "s");
  CHECK(sample.packing);
  CHECK(sample.steps == -1);
  CHECK(sample.shapes == std::vector{Shape::kSquare, Shape::kRound});
  CHECK(sample.name == "{% for m in messages %}\n\u00e4{% endfor %}");
}

TEST_CASE("a config file that is not there is an error that names it") {
  const auto parsed = Parse({"--config_file", "/nonexistent/x.yaml"});
  CHECK(parsed.status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(parsed.status().message(), "/nonexistent/x.yaml"));
}

TEST_CASE("a map in a file holds flat names, and names of its own") {
  const SampleOptions sample = Read(
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

TEST_CASE("a map may stand on the command line, over the file's") {
  const testing::TempFolder folder;
  const std::string path = folder.Write("good.yaml", "shape_kwargs: {power: 3}\n");
  CHECK(Parse({"--config_file", path})->sample.loss.power == 3);
  CHECK(Parse({"--config_file", path, "--shape_kwargs", "{\"power\": 2}"})->sample.loss.power == 2);
  CHECK(Parse({"--shape-kwargs.power=1"})->sample.loss.power == 1);
  CHECK(ErrorOf({"--shape_kwargs", "{power: -1}"}) == "shape_kwargs.power: must be at least 0, not -1");
  CHECK(absl::StrContains(ErrorOf({"--shape_kwargs", "fast"}), "--shape_kwargs: expected a map, {name: value, ...}"));
}

TEST_CASE("what other tools call an option is accepted where it means the same") {
  CHECK(Parse({"--tau", "3"})->sample.loss.temperature == 3);
  CHECK(Parse({"--max_steps=4"})->sample.steps == 4);
  CHECK(Parse({"--once"})->sample.steps == 1);
  CHECK(ErrorOf({"--once", "false"}) == "--once: must be one of true, not 'false'");
  CHECK(ErrorOfFile("tau: 0\n") == ":1: tau (temperature): must be above 0, not 0");
  CHECK(ErrorOfFile("tau: 1\ntemperature: 2\n") == ":2: temperature is given twice, first in line 1");
  CHECK(Read("tau: 1\ntemperature: 1\n").loss.temperature == 1);
}

TEST_CASE("a name of other tools is accepted for what happens anyway, noted, or refused with the reason") {
  CHECK(Parse({"--optim", "adamw_torch"}).ok());
  CHECK(ErrorOf({"--optim", "sgd"}) ==
        "--optim: sgd: AdamW is the only optimizer (only adamw_torch, adamw asks for what happens here)");
  CHECK(ErrorOfFile("\noptim: sgd\n") ==
        ":2: optim: sgd: AdamW is the only optimizer (only adamw_torch, adamw asks for what happens here)");
  CHECK(ErrorOfFile("lora_r: 8\n") == ":1: lora_r: adapters are not supported");
  CHECK(Read("lora_r: null\noptim: null\n").steps == -1);
  CHECK(Parse({"--workers", "4"})->line.notes ==
        std::vector<std::string>{"workers: 4: there is one thread, whatever it says"});
  SampleOptions sample;
  std::vector<std::string> notes;
  CHECK(ReadText("workers: 4\n", sample, notes) == absl::OkStatus());
  CHECK(notes.size() == 1);
}

TEST_CASE("every value goes into a file that reads back to the same values") {
  SampleOptions sample;
  sample.rate = 1.0 / 3;
  sample.name = "{% if \"x\" %}: # \\\r\n\t{% endif %}";
  sample.folder = "a b/c";
  sample.shapes = {Shape::kSquare, Shape::kRound};
  sample.narrow = Switch::kAuto;
  sample.loss.power = 0.1;
  sample.timeout = absl::Milliseconds(1500);
  const std::string text = ValuesToYaml(DescriptionOf(sample).Values(/*with_code_only=*/false));
  const SampleOptions back = Read(text);
  CHECK(ValuesOf(back) == ValuesOf(sample));
  CHECK(back.rate == sample.rate);
  CHECK(ValuesOf(Read(ValuesToYaml(DescriptionOf(sample = SampleOptions()).Values(false)))) ==
        ValuesOf(SampleOptions()));
  CHECK(Read("name: \"null\"\n").name == "null");
  const FieldValues values = {{"a", "x: \"y\"\n"}, {"b.c", ""}, {"d", "org/name@0123,s3://b/c"}};
  REQUIRE(ValuesFromYaml(ValuesToYaml(values)).ok());
  CHECK(*ValuesFromYaml(ValuesToYaml(values)) == values);
  CHECK(ValuesFromYaml("")->empty());
  for (const char* other : {"a: [b]", "a: {b: c}", "[a, b]", "text", "a: \"b"}) {
    INFO(other);
    CHECK(absl::IsInvalidArgument(ValuesFromYaml(other).status()));
  }
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
