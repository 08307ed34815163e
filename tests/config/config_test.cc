#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/config/command_line.h"
#include "libdistill/config/foreign_names.h"
#include "libdistill/config/llm_config.h"
#include "libdistill/config/option_table.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

// A config file that is gone when the test ends.
class File {
 public:
  File(const std::string& name, const std::string& text) : path_(folder_.Write(name, text)) {}
  const std::string& path() const { return path_; }

 private:
  const testing::TempFolder folder_;
  const std::string path_;
};

absl::StatusOr<CommandLine> Parse(std::vector<std::string> arguments) {
  std::vector<const char*> argv = {"distill_llm"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return ParseCommandLine(static_cast<int>(argv.size()), argv.data());
}

// The error of a good command line with these arguments added.
std::string ErrorOf(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"--student_model", "s", "--teacher_model", "t", "--dataset_name", "d.jsonl", "--output_dir", "o"});
  const auto command = Parse(arguments);
  REQUIRE_FALSE(command.ok());
  CHECK(command.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(command.status().message());
}

// With the file's path left out.
std::string ErrorOfFile(const std::string& text) {
  const File file("bad.yaml", text);
  LlmConfig config;
  const absl::Status status = ReadConfigFile(file.path(), config);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StartsWith(status.message(), file.path()));
  return std::string(status.message().substr(file.path().size()));
}

constexpr char kGood[] =
    "student_model: s\nteacher_model: t\ndataset_name: d.jsonl\noutput_dir: o\nlearning_rate: 1e-4\nbf16: true\n";

}  // namespace

TEST_CASE("defaults are those of the issue") {
  const LlmConfig config;
  CHECK(config.seed == 42);
  CHECK(config.max_length == 4096);
  CHECK(config.num_train_epochs == 3);
  CHECK(config.per_device_train_batch_size == 1);
  CHECK(config.gradient_accumulation_steps == 8);
  CHECK(config.learning_rate == 2e-5);
  CHECK(config.weight_decay == 0.05);
  CHECK(config.warmup_ratio == 0.1);
  CHECK(config.lr_scheduler_type == "cosine");
  CHECK(config.save_steps == 1000);
  CHECK(config.logging_steps == 1);
  CHECK(config.temperature == 2.0);
  CHECK(config.alpha == 0.5);
  CHECK(config.comm_timeout_seconds == 300);
  CHECK(config.heartbeat_timeout_seconds == 15);
}

TEST_CASE("the command line overrides the file, dashes and underscores are the same") {
  const File file("good.yaml", kGood);
  const auto command = Parse({"--config-file", file.path(), "--learning-rate=3e-4", "--max_steps", "-1", "--packing",
                              "--per-device_train-batch_size", "4", "--bf16", "false"});
  REQUIRE(command.ok());
  CHECK(command->config.student_model == "s");
  CHECK(command->config.learning_rate == 3e-4);
  CHECK(command->config.max_steps == -1);
  CHECK(command->config.packing);
  CHECK(command->config.per_device_train_batch_size == 4);
  CHECK_FALSE(command->config.bf16);
}

TEST_CASE("a JSON file is read as a YAML one") {
  const File file(
      "good.json",
      "{\n\t\"student_model\": \"s\",\n  \"seed\": 7, \"alpha\": 0, \"packing\": true, \"max_steps\": null,\n"
      "  \"chat_template\": \"{% for m in messages %}\\n\\u00e4{% endfor %}\"}\n");
  LlmConfig config;
  REQUIRE(ReadConfigFile(file.path(), config) == absl::OkStatus());
  CHECK(config.seed == 7);
  CHECK(config.alpha == 0);
  CHECK(config.packing);
  CHECK(config.max_steps == -1);
  CHECK(config.chat_template == "{% for m in messages %}\n\u00e4{% endfor %}");
}

TEST_CASE("errors of a file name the file, the line and the key") {
  CHECK(ErrorOfFile("seed: 1\nlearning_rat: 1e-4\n") ==
        ":2: unknown key 'learning_rat'; did you mean 'learning_rate'?");
  CHECK(ErrorOfFile("seed: 1\n\nnum_train_epochs: many\n") == ":3: num_train_epochs: expected a number, not 'many'");
  CHECK(ErrorOfFile("max_length: 1.5\n") == ":1: max_length: expected a whole number, not '1.5'");
  CHECK(ErrorOfFile("packing: maybe\n") == ":1: packing: expected true or false, not 'maybe'");
  CHECK(ErrorOfFile("alpha: 1.5\n") == ":1: alpha: must be at least 0 and at most 1, not 1.5");
  CHECK(ErrorOfFile("temperature: 0\n") == ":1: temperature: must be above 0, not 0");
  CHECK(ErrorOfFile("seed: -1\n") == ":1: seed: expected a whole number, not '-1'");
  CHECK(ErrorOfFile("seed: 1\nseed: 2\n") == ":2: seed is given twice");
  CHECK(ErrorOfFile("training:\n  seed: 2\n") ==
        ":1: unknown key 'training'; keys are flat here: write what is in it without it (--help lists all options)");
  CHECK(ErrorOfFile("wizardry: 2\n") == ":1: unknown key 'wizardry'; --help lists all options");
  CHECK(ErrorOfFile("seed: 1\nmax_seq_length: 2\n") ==
        ":2: unknown key 'max_seq_length'; here it is 'max_length' (--help says what that takes)");
  CHECK(ErrorOfFile("alpha: [1, 2]\n") == ":1: alpha: expected a number, not a list");
  CHECK(absl::StartsWith(ErrorOfFile("seed: 1\nalpha: [1,\n"), ":"));
}

TEST_CASE("a config file that is not there is an error that names it") {
  LlmConfig config;
  const absl::Status status = ReadConfigFile("/nonexistent/x.yaml", config);
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(status.message(), "/nonexistent/x.yaml"));
}

TEST_CASE("errors of the command line name the option") {
  CHECK(ErrorOf({"--tempratur", "2"}) == "unknown option '--tempratur'; did you mean '--temperature'?");
  CHECK(ErrorOf({"--wizardry", "2"}) == "unknown option '--wizardry'; --help lists all options");
  CHECK(ErrorOf({"--alpha", "two"}) == "--alpha: expected a number, not 'two'");
  CHECK(absl::StrContains(ErrorOf({"stray"}), "unexpected argument 'stray'"));
  CHECK(absl::StrContains(ErrorOf({"--comm-backend", "token-ring"}), "--comm_backend: must be one of auto, shm"));
  CHECK(absl::StrContains(ErrorOf({"--comm_algorithm", "tree"}),
                          "--comm_algorithm: must be one of auto, flat, recursive_doubling, direct_exchange, "));
  CHECK(absl::StrContains(ErrorOf({"--device=tpu"}), "--device: must be one of auto, cpu, cuda, not 'tpu'"));
  CHECK(absl::StrContains(ErrorOf({"--learning_rate", "nan"}), "expected a number"));
}

TEST_CASE("what other programs call a setting is no alias, but the error tells our name") {
  const std::pair<const char*, const char*> names[] = {
      {"lr", "learning_rate"},
      {"epochs", "num_train_epochs"},
      {"batch_size", "per_device_train_batch_size"},
      {"batch-size", "per_device_train_batch_size"},
      {"gradient_accumulation", "gradient_accumulation_steps"},
      {"max_seq_length", "max_length"},
      {"model_name_or_path", "student_model"},
      {"teacher_model_name_or_path", "teacher_model"},
      {"resume", "resume_from_checkpoint"},
      {"config", "config_file"},
  };
  for (const auto& [name, own] : names) {
    CHECK(absl::StrContains(ErrorOf({absl::StrCat("--", name), "2"}), absl::StrCat("; here it is '--", own, "'")));
  }
}

TEST_CASE("names of other programs are none of ours, each leads to one of ours, and to one alone") {
  std::set<std::string> seen;
  for (const ForeignNames& names : AllForeignNames()) {
    INFO(names.own);
    CHECK((FindOption(names.own) != nullptr || std::string(names.own) == "config_file"));
    for (const char* foreign : names.foreign) {
      INFO(foreign);
      CHECK(FindOption(foreign) == nullptr);
      CHECK(seen.insert(foreign).second);
    }
  }
}

TEST_CASE("what is not supported yet is refused by name") {
  CHECK(absl::StrContains(ErrorOf({"--layers_to_unfreeze", "x.yaml"}), "layers_to_unfreeze"));
  for (const char* option : {"--dataset_name", "--teacher_model", "--student_model", "--output_dir",
                             "--eval_dataset_name", "--resume_from_checkpoint"}) {
    const std::string error = ErrorOf({option, "s3://bucket/x"});
    CHECK(absl::StrContains(error, option));
    CHECK(absl::StrContains(error, "s3://bucket/x"));
  }
}

TEST_CASE("settings that exclude one another, or lack another, are refused") {
  CHECK(absl::StrContains(ErrorOf({"--teacher_model", ""}), "teacher_model"));
  CHECK(absl::StrContains(ErrorOf({"--eval_steps", "5"}), "eval_dataset_name"));
  CHECK(absl::StrContains(ErrorOf({"--bf16", "--fp16"}), "bf16 and fp16 are both true"));
  const auto without = Parse({"--student_model", "s", "--output_dir", "o"});
  CHECK(absl::StrContains(without.status().message(), "dataset_name is missing"));
  CHECK(Parse({"--student_model", "s", "--dataset_name", "d", "--output_dir", "o", "--alpha", "0"}).ok());
}

TEST_CASE("the resolved config reads back to the same settings") {
  LlmConfig config;
  config.learning_rate = 1.0 / 3;
  config.chat_template = "{% if \"x\" %}: # \\\r\n\t{% endif %}";
  config.output_dir = "a b/c";
  config.max_steps = -1;
  config.project_name = "null";
  const File file("resolved.yaml", FieldsToYaml(ResolvedFields(config)));
  LlmConfig back;
  REQUIRE(ReadConfigFile(file.path(), back) == absl::OkStatus());
  CHECK(ResolvedFields(back) == ResolvedFields(config));
  CHECK(back.learning_rate == config.learning_rate);
}

TEST_CASE("every setting has a value in the resolved config and a line in the help") {
  const auto command = Parse({"--help"});
  REQUIRE(command.ok());
  for (const auto& [name, value] : ResolvedFields(LlmConfig())) {
    CHECK(absl::StrContains(command->message, "--" + name));
  }
  CHECK(absl::StrContains(command->message, "--show_batch"));
}

TEST_CASE("a batch is shown with and without the word true, as for every yes-or-no option") {
  const std::vector<std::string> good = {"--student_model", "s", "--teacher_model", "t",
                                         "--dataset_name",  "d", "--output_dir",    "o"};
  const auto shows = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), good.begin(), good.end());
    const auto command = Parse(arguments);
    INFO(command.status().ToString());
    REQUIRE(command.ok());
    CHECK(command->config.output_dir == "o");
    return command->flags.show_batch;
  };
  CHECK_FALSE(shows({}));
  CHECK(shows({"--show-batch"}));
  CHECK(shows({"--show_batch", "true"}));
  CHECK(shows({"--show-batch=true", "--seed", "7"}));
  CHECK(shows({"--show-batch", "--seed", "7"}));
  CHECK_FALSE(shows({"--show-batch", "false"}));
  CHECK(absl::StrContains(ErrorOf({"--show-batch", "maybe"}), "show_batch"));
}

TEST_CASE("a plan needs the models alone, and takes ranks that a run does not") {
  const auto command = Parse({"--plan", "--world-size", "16", "--student_model", "s", "--alpha", "0"});
  INFO(command.status().ToString());
  REQUIRE(command.ok());
  CHECK(command->flags.plan);
  CHECK(command->flags.world_size == 16);
  CHECK(command->flags.ranks_per_host == 0);
  CHECK(absl::StrContains(Parse({"--plan"}).status().message(), "student_model is missing"));
  CHECK(absl::StrContains(Parse({"--plan", "--student_model", "s"}).status().message(), "no teacher_model"));
  CHECK(absl::StrContains(ErrorOf({"--plan", "--world_size", "0"}), "world_size"));
  CHECK(absl::StrContains(ErrorOf({"--ranks_per_host", "2"}), "go with --plan"));
}

TEST_CASE("version and generation need no other settings") {
  CHECK(absl::StartsWith(Parse({"--version"})->message, "libdistill "));
  const auto command = Parse({"--generate", "out", "--prompt", "hi --there", "--sampling-temperature", "0.7"});
  REQUIRE(command.ok());
  CHECK(command->flags.generate == "out");
  CHECK(command->flags.prompt == "hi --there");
  CHECK(command->flags.sampling_temperature == 0.7);
  CHECK_FALSE(Parse({"--generate", "out"}).ok());
}

}  // namespace distill
