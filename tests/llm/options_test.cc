#include "examples/llm/options.h"

#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "examples/recipe/kept_options.h"
#include "libdistill/config/config_file.h"
#include "libdistill/core/description.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

absl::StatusOr<LlmCommand> Parse(std::vector<std::string> arguments) {
  std::vector<const char*> argv = {"distill_llm"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return ParseCommand<LlmOptions, LlmFlags>(static_cast<int>(argv.size()), argv.data(), kDistillLlm, CheckCommand);
}

// A good command line with these arguments added.
absl::StatusOr<LlmCommand> ParseGood(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"--student_model", "s", "--teacher_model", "t", "--dataset_name", "d.jsonl", "--output_dir", "o"});
  return Parse(arguments);
}

LlmOptions OptionsOf(std::vector<std::string> arguments) {
  const auto command = ParseGood(std::move(arguments));
  INFO(command.status().ToString());
  REQUIRE(command.ok());
  return command->options;
}

std::string ErrorOf(std::vector<std::string> arguments) {
  const auto command = ParseGood(std::move(arguments));
  REQUIRE_FALSE(command.ok());
  CHECK(command.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(command.status().message());
}

}  // namespace

TEST_CASE("defaults are those of distil_logits_cli.py") {
  const LlmOptions options;
  CHECK(options.teacher_model == "arcee-ai/Arcee-Spark");
  CHECK(options.student_model == "Qwen/Qwen2-1.5B");
  CHECK(options.sources.dataset_name == "mlabonne/FineTome-100k");
  CHECK(options.trainer.output_dir == "/fsx/model");
  CHECK(options.trainer.seed == 42);
  CHECK(options.shard.max_length == 4096);
  CHECK(options.trainer.num_train_epochs == 3);
  CHECK(options.shard.rows_per_rank == 1);
  CHECK(options.trainer.learning_rate == 2e-5);
  CHECK(options.trainer.weight_decay == 0.05);
  CHECK(options.trainer.warmup_ratio == 0.1);
  CHECK(options.trainer.lr_scheduler_type == SchedulerType::kCosine);
  CHECK(options.trainer.save_steps == 1000);
  CHECK(options.trainer.logging_steps == 1);
  CHECK(options.trainer.bf16 == Switch::kAuto);
  CHECK(options.loss.temperature == 2.0);
  CHECK(options.loss.alpha == 0.5);
  CHECK(options.run.communicator.timeout == absl::Seconds(300));
  CHECK(options.run.communicator.heartbeat_timeout == absl::Seconds(15));
  // Eight micro-batches a step are the recipe's, one is the library's.
  CHECK(options.shard.accumulation_steps == 8);
  CHECK(ShardOptions().accumulation_steps == 1);
}

// Every name that sets a field, is refused for one, or is another tool's.
std::vector<std::string> AllNames(const Description& description) {
  std::vector<std::string> names;
  for (const FieldDescription& field : description.fields()) {
    if (field.is_in_code_only) continue;
    names.push_back(field.name);
    for (const FieldAlias& alias : field.aliases) names.push_back(alias.name);
    names.insert(names.end(), field.similar.begin(), field.similar.end());
  }
  for (const ForeignName& foreign : description.foreign()) names.push_back(foreign.name);
  return names;
}

TEST_CASE("no name means two options") {
  LlmOptions options;
  LlmFlags flags;
  std::set<std::string> seen;
  for (const Description& description : {DescriptionOf(options), DescriptionOf(flags)}) {
    for (const std::string& name : AllNames(description)) {
      INFO(name);
      CHECK(seen.insert(name).second);
    }
  }
}

TEST_CASE("names of transformers and TRL are accepted where they mean the same") {
  CHECK(OptionsOf({"--lr", "1e-4"}).trainer.learning_rate == 1e-4);
  CHECK(OptionsOf({"--epochs", "2"}).trainer.num_train_epochs == 2);
  CHECK(OptionsOf({"--adam_beta1", "0.8"}).trainer.adam_beta1 == 0.8);
  CHECK(OptionsOf({"--warmup_steps", "10"}).trainer.warmup_steps == 10);
  CHECK(OptionsOf({"--max_seq_length", "128"}).shard.max_length == 128);
  CHECK(OptionsOf({"--model_name_or_path", "m"}).student_model == "m");
  CHECK(OptionsOf({"--teacher_model_name_or_path", "m"}).teacher_model == "m");
  CHECK(OptionsOf({"--ddp_timeout", "1800"}).run.communicator.timeout == absl::Seconds(1800));
  CHECK(OptionsOf({"--ddp_backend", "nccl"}).run.communicator.backend == BackendPreference::kNccl);
  CHECK(OptionsOf({"--use_cpu"}).run.device == DeviceChoice::kCpu);
  CHECK(OptionsOf({"--torch_dtype", "bfloat16"}).trainer.bf16 == Switch::kTrue);
  CHECK(OptionsOf({"--optim", "adamw_torch", "--dataloader_drop_last", "false"}).trainer.adam_beta2 == 0.999);
  CHECK(OptionsOf({"--dataloader_num_workers", "7"}).loader.num_workers == 7);
  CHECK(OptionsOf({"--prefetch_factor", "3"}).loader.prefetch_factor == 3);
  CHECK(ParseGood({"--dataloader_persistent_workers", "true"})->line.notes.size() == 1);
  CHECK(OptionsOf({"--bf16", "auto"}).trainer.bf16 == Switch::kAuto);
  CHECK(OptionsOf({"--bf16"}).trainer.bf16 == Switch::kTrue);
}

TEST_CASE("names of other tools are refused with our name or the reason where they mean something else") {
  CHECK(absl::StrContains(ErrorOf({"--batch-size", "2"}), "; here it is '--per_device_train_batch_size'"));
  CHECK(absl::StrContains(ErrorOf({"--kd_ratio", "2"}), "; here it is '--alpha'"));
  CHECK(absl::StrContains(ErrorOf({"--warmup", "2"}), "; here it is '--warmup_ratio'"));
  CHECK(absl::StrContains(ErrorOf({"--optim", "sgd"}), "--optim: sgd: AdamW is the only optimizer"));
  CHECK(absl::StrContains(ErrorOf({"--deepspeed", "ds.json"}), "set zero_stage"));
  CHECK(absl::StrContains(ErrorOf({"--lora_r", "8"}), "adapters"));
  CHECK(absl::StrContains(ErrorOf({"--ddp_backend", "gloo"}), "fabric or shm"));
  CHECK(absl::StrContains(ErrorOf({"--attn_implementation", "flex_attention"}), "must be one of"));
  CHECK(absl::StrContains(ErrorOf({"--lr_scheduler_type", "reduce_lr_on_plateau"}), "does not follow evaluations"));
}

TEST_CASE("DistillKit's config is read as it is") {
  const testing::TempFolder folder;
  const std::string path = folder.Write("distillkit.yaml", R"(project_name: distil-logits
dataset:
  name: data.jsonl
  split: train
  num_samples: 12
  seed: 7
models:
  teacher: t
  student: s
tokenizer:
  max_length: 2048
  chat_template: "{% for message in messages %}{% endfor %}"
training:
  output_dir: results
  num_train_epochs: 2
  per_device_train_batch_size: 2
  gradient_accumulation_steps: 4
  save_steps: 500
  logging_steps: 2
  learning_rate: 3e-5
  weight_decay: 0.01
  warmup_ratio: 0.2
  lr_scheduler_type: linear
  resume_from_checkpoint: null
  fp16: false
  bf16: true
distillation:
  temperature: 3.0
  alpha: 0.25
model_config:
  use_flash_attention: true
spectrum:
  layers_to_unfreeze: null
)");
  const auto command = Parse({"--config_file", path});
  INFO(command.status().ToString());
  REQUIRE(command.ok());
  const LlmOptions& options = command->options;
  CHECK(options.sources.dataset_name == "data.jsonl");
  CHECK(options.sources.max_samples == 12);
  CHECK(options.trainer.seed == 7);
  CHECK(options.shard.seed == 7);
  CHECK(options.teacher_model == "t");
  CHECK(options.student_model == "s");
  CHECK(options.shard.max_length == 2048);
  CHECK(options.trainer.output_dir == "results");
  CHECK(options.shard.accumulation_steps == 4);
  CHECK(options.trainer.lr_scheduler_type == SchedulerType::kLinear);
  CHECK(options.trainer.bf16 == Switch::kTrue);
  CHECK(options.loss.temperature == 3);
  CHECK(options.loss.alpha == 0.25);
  CHECK(options.use_flash_attention);
}

TEST_CASE("records go to the tools that are named, and others are refused with what to do") {
  using Reports = std::vector<ReportTo>;
  CHECK(LlmOptions().trainer.report_to == DefaultReports());
  CHECK(OptionsOf({"--report_to", "csv,jsonl"}).trainer.report_to == Reports{ReportTo::kCsv, ReportTo::kJsonl});
  CHECK(OptionsOf({"--report_to", "none"}).trainer.report_to.empty());
  CHECK(absl::StrContains(ErrorOf({"--report_to", "wandb"}), "wandb sync OUTPUT_DIR/tensorboard"));
  CHECK(absl::StrContains(ErrorOf({"--report_to", "csv,mlflow"}), "mlflow.log_metrics"));
  CHECK(absl::StrContains(ErrorOf({"--report_to", "paper"}), "must be one of jsonl, tensorboard, csv, curves"));
  CHECK(OptionsOf({"--run_name", "first"}).trainer.run_name == "first");
  CHECK(absl::StrContains(ErrorOf({"--run_name", "../x"}), "run_name: must be a folder's name"));
  CHECK(OptionsOf({"--disable_tqdm", "true"}).trainer.disable_tqdm);
}

TEST_CASE("docs/config.md is what --help_markdown prints") {
  const auto command = Parse({"--help_markdown"});
  REQUIRE(command.ok());
  std::ifstream file(DISTILL_SOURCE_DIR "/docs/config.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  INFO("write it anew: build/bin/distill_llm --help_markdown > docs/config.md");
  CHECK(command->line.message == page);
}

TEST_CASE("what is not supported yet is refused by name") {
  for (const char* option : {"--cache_dir", "--store_cache_dir", "--comm_tuning_file"}) {
    const std::string error = ErrorOf({option, "s3://bucket/x"});
    CHECK(absl::StrContains(error, option));
    CHECK(absl::StrContains(error, "s3://bucket/x"));
  }
}

TEST_CASE("data, models and output may be in S3") {
  const LlmOptions options =
      OptionsOf({"--teacher_model", "s3://b/t", "--student_model", "s3://b/s", "--dataset_name", "s3://b/d",
                 "--output_dir", "s3://b/o", "--resume_from_checkpoint", "s3://b/o/checkpoint-5"});
  CHECK(options.teacher_model == "s3://b/t");
  CHECK(options.student_model == "s3://b/s");
  CHECK(options.sources.dataset_name == "s3://b/d");
  CHECK(options.trainer.output_dir == "s3://b/o");
  CHECK(options.trainer.resume_from_checkpoint == "s3://b/o/checkpoint-5");
}

TEST_CASE("when to evaluate and save, and which model to keep, by transformers' names") {
  const auto evaluated = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--eval_dataset_name", "held_out.jsonl"});
    return words;
  };
  const LlmOptions options =
      OptionsOf(evaluated({"--evaluation_strategy", "epoch", "--save_strategy", "epoch", "--load_best_model_at_end",
                           "--metric_for_best_model", "eval_kl", "--greater_is_better", "false",
                           "--early_stopping_patience", "3", "--per_device_eval_batch_size", "16"}));
  CHECK(options.trainer.eval_strategy == EvalStrategy::kEpoch);
  CHECK(options.trainer.save_strategy == SaveStrategy::kEpoch);
  CHECK(options.trainer.best_model.load_best_model_at_end);
  CHECK(options.trainer.best_model.greater_is_better == Switch::kFalse);
  CHECK(options.trainer.best_model.early_stopping_patience == 3);
  CHECK(ForEvaluation(options.shard).rows_per_rank == 16);
  CHECK(ForEvaluation(OptionsOf({"--per_device_train_batch_size", "5"}).shard).rows_per_rank == 5);
  CHECK(absl::StrContains(ErrorOf(evaluated({"--eval_strategy", "steps"})), "needs eval_steps"));
  CHECK(absl::StrContains(ErrorOf(evaluated({"--eval_strategy", "epoch", "--eval_steps", "5"})), "leave one of them"));
  CHECK(absl::StrContains(ErrorOf(evaluated({"--eval_strategy", "no", "--metric_for_best_model", "kl"})),
                          "leaves nothing"));
  CHECK(absl::StrContains(ErrorOf(evaluated({"--load_best_model_at_end"})), "evaluations before the end"));
  CHECK(absl::StrContains(ErrorOf(evaluated({"--early_stopping_patience", "2"})), "evaluations before the end"));
  CHECK(absl::StrContains(ErrorOf(evaluated({"--metric_for_best_model", "kl"})), "evaluations before the end"));
  CHECK(absl::StrContains(ErrorOf({"--early_stopping_threshold", "1"}), "needs early_stopping_patience"));
  CHECK(absl::StrContains(ErrorOf({"--greater_is_better", "true"}), "needs metric_for_best_model"));
  CHECK(absl::StrContains(ErrorOf({"--eval_strategy", "epoch"}), "eval_dataset_name"));
  CHECK(absl::StrContains(ErrorOf({"--per_device_eval_batch_size", "4"}), "eval_dataset_name"));
  CHECK(absl::StrContains(ErrorOf({"--save_strategy", "best"}), "load_best_model_at_end: true"));
}

TEST_CASE("options that exclude one another, or lack another, are refused") {
  CHECK(absl::StrContains(ErrorOf({"--teacher_model", ""}), "teacher_model"));
  CHECK(absl::StrContains(ErrorOf({"--eval_steps", "5"}), "eval_dataset_name"));
  CHECK(absl::StrContains(ErrorOf({"--bf16", "--fp16"}), "bf16 and fp16 are both true"));
  CHECK(OptionsOf({"--bf16", "auto", "--fp16"}).trainer.fp16);
  CHECK(absl::StrContains(ErrorOf({"--lr_scheduler_kwargs", "{power: 2}"}), "cosine does not use it"));
  CHECK(absl::StrContains(ErrorOf({"--comm-backend", "token-ring"}), "--comm_backend: must be one of auto, shm"));
  CHECK(absl::StrContains(ErrorOf({"--device=tpu"}), "--device: must be one of auto, cpu, cuda, not 'tpu'"));
  for (const char* name : {"student_model", "dataset_name", "output_dir"}) {
    CHECK(absl::StrContains(ErrorOf({absl::StrCat("--", name), ""}), absl::StrCat(name, " is missing")));
  }
  CHECK(Parse({"--student_model", "s", "--dataset_name", "d", "--output_dir", "o", "--alpha", "0"}).ok());
}

TEST_CASE("the default teacher is taken where something is learnt from it, and none is a teacher's absence") {
  CHECK(Parse({})->options.teacher_model == "arcee-ai/Arcee-Spark");
  CHECK(Parse({"--alpha", "0"})->options.teacher_model.empty());
  CHECK_FALSE(
      Parse({"--alpha", "0", "--alpha_schedule", "linear", "--alpha_end", "0.5"})->options.teacher_model.empty());
  CHECK(OptionsOf({"--alpha", "0"}).teacher_model == "t");
  CHECK(OptionsOf({"--alpha", "0", "--teacher_model", "none"}).teacher_model.empty());
  CHECK(absl::StrContains(ErrorOf({"--teacher_model", "none"}), "there is no teacher_model"));
  CHECK(NamesByDefault(OptionsOf({})).empty());
  CHECK(NamesByDefault(Parse({"--student_model", "s", "--output_dir", "o"})->options) ==
        "teacher_model arcee-ai/Arcee-Spark, dataset_name mlabonne/FineTome-100k");
}

TEST_CASE("what a run keeps of its options reads back to the same, but that it overwrites nothing again") {
  LlmOptions options;
  options.trainer.overwrite_output_dir = true;
  options.trainer.lr_scheduler_type = SchedulerType::kCosineWithMinLr;
  options.trainer.lr_scheduler_kwargs.min_lr_rate = 0.1;
  options.chat_template = "{% if \"x\" %}: # \\\r\n\t{% endif %}";
  options.project_name = "null";
  const testing::TempFolder folder;
  LlmOptions back;
  std::vector<std::string> notes;
  const std::string path = folder.Write("resolved.yaml", ValuesToYaml(OptionsToKeep(options)));
  REQUIRE(ReadConfigFile(path, DescriptionOf(back), notes) == absl::OkStatus());
  CHECK_FALSE(back.trainer.overwrite_output_dir);
  options.trainer.overwrite_output_dir = false;
  CHECK(ValuesOf(back) == ValuesOf(options));
}

TEST_CASE("a plan needs the models alone, and takes ranks that a run does not") {
  const auto command = Parse({"--plan", "--world-size", "16", "--student_model", "s", "--alpha", "0"});
  INFO(command.status().ToString());
  REQUIRE(command.ok());
  CHECK(command->flags.plan);
  CHECK(command->flags.world_size == 16);
  CHECK_FALSE(command->flags.ranks_per_host.has_value());
  CHECK(Parse({"--plan"}).ok());
  CHECK(absl::StrContains(Parse({"--plan", "--student_model", ""}).status().message(), "student_model is missing"));
  CHECK(absl::StrContains(Parse({"--plan", "--teacher_model", ""}).status().message(), "no teacher_model"));
  CHECK(absl::StrContains(ErrorOf({"--plan", "--world_size", "0"}), "world_size"));
  CHECK(absl::StrContains(ErrorOf({"--ranks_per_host", "2"}), "go with --plan"));
}

TEST_CASE("a dry run needs what a run needs, and is one thing to do") {
  CHECK(ParseGood({"--dry-run"})->flags.dry_run);
  CHECK(absl::StrContains(Parse({"--dry_run", "--dataset_name", ""}).status().message(), "dataset_name is missing"));
  CHECK(absl::StrContains(ErrorOf({"--dry_run", "--plan"}), "--plan and --dry_run are two things to do"));
  CHECK(absl::StrContains(ErrorOf({"--dry_run", "--show_batch"}), "--dry_run and --show_batch are two things to do"));
}

TEST_CASE("a dry run reads few rows, as many as hold out some, and publishes nothing") {
  LlmOptions options = OptionsOf({"--max_length", "96", "--hub_location", "o/n", "--gradient_accumulation_steps", "8"});
  Shrink(options);
  CHECK(options.sources.max_samples == 64);
  CHECK(options.max_eval_samples == 16);
  CHECK(options.shard.max_length == 96);
  CHECK(options.shard.accumulation_steps == 1);
  CHECK(options.tokenizing.cache_dir == "none");
  CHECK_FALSE(PublishesToHub(options.publish));
  options = OptionsOf({"--num_samples", "10", "--validation_split", "0.01"});
  Shrink(options);
  CHECK(options.sources.max_samples == 10 + 1600);
  CHECK(options.shard.max_length == 128);
}

TEST_CASE("version and generation need no other options") {
  CHECK(absl::StartsWith(Parse({"--version"})->line.message, "libdistill "));
  const auto command = Parse({"--generate", "out", "--prompt", "hi --there", "--sampling-temperature", "0.7"});
  REQUIRE(command.ok());
  CHECK(command->flags.generate == "out");
  CHECK(command->flags.prompt == std::vector<std::string>{"hi --there"});
  CHECK(command->flags.sampling_temperature == 0.7);
  CHECK_FALSE(command->flags.top_k.has_value());
}

TEST_CASE("prompts and stop strings may be given several times, whatever they hold") {
  const auto command =
      Parse({"--generate", "out", "--prompt", "[a, b]", "--stop", "\n", "--prompt=x, y", "--stop", "{}"});
  INFO(command.status());
  REQUIRE(command.ok());
  CHECK(command->flags.prompt == std::vector<std::string>{"[a, b]", "x, y"});
  CHECK(command->flags.stop == std::vector<std::string>{"\n", "{}"});
  CHECK(Parse({"--generate", "out", "--prompt", "x", "--stream"})->flags.stream == Switch::kTrue);
  CHECK(Parse({"--generate", "out", "--prompt", "x", "--do_sample", "false"})->flags.do_sample == false);
}

TEST_CASE("what generation is told must fit together") {
  const auto error = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"--generate", "out"});
    return ErrorOf(more);
  };
  CHECK(error({}) == "--generate needs --prompt TEXT or --prompts FILE");
  CHECK(absl::StrContains(error({"--prompt", "x", "--prompt", "y", "--stream"}), "--stream prints one answer"));
  CHECK(absl::StrContains(error({"--prompts", "x.jsonl", "--stream"}), "--stream prints one answer"));
  CHECK(absl::StrContains(error({"--prompt", "x", "--stop", ""}), "--stop is empty"));
  CHECK(absl::StrContains(error({"--prompt", "x", "--do_sample", "false", "--sampling_temperature", "1"}),
                          "--do_sample false takes the most likely token"));
  CHECK(absl::StrContains(error({"--prompt", "x", "--do_sample", "--sampling_temperature", "0"}), "draws no token"));
  CHECK(absl::StrContains(error({"--prompt", "x", "--repetition_penalty", "0"}), "above 0"));
  CHECK(absl::StrContains(error({"--prompt", "x", "--top_p", "1.5"}), "top_p"));
  CHECK(absl::StrContains(ErrorOf({"--prompt", "x"}), "need --generate FOLDER"));
}

TEST_CASE("where the student is saved follows from hub_location, unless save_location says it") {
  CHECK_FALSE(PublishesToHub(OptionsOf({}).publish));
  CHECK(KeepsInFolder(OptionsOf({}).publish));
  const PublishOptions both = OptionsOf({"--hub_model_id", "org/student"}).publish;
  CHECK(both.hub_location == "org/student");
  CHECK((PublishesToHub(both) && KeepsInFolder(both)));
  const PublishOptions hub = OptionsOf({"--hub_location", "org/student", "--save_location", "hub"}).publish;
  CHECK((PublishesToHub(hub) && !KeepsInFolder(hub)));
  CHECK_FALSE(PublishesToHub(OptionsOf({"--hub_location", "org/student", "--push_to_hub", "false"}).publish));
  CHECK(OptionsOf({"--hub_location", "org/student", "--push_to_hub"}).publish.save_location == SaveLocation::kBoth);
}

TEST_CASE("a place on the hub is refused that can be none, or is missing") {
  CHECK(absl::StrContains(ErrorOf({"--save_location", "hub"}), "hub_location is not set: give it as ORG/NAME"));
  CHECK(absl::StrContains(ErrorOf({"--push_to_hub", "true"}), "hub_location is not set"));
  CHECK(absl::StrContains(ErrorOf({"--hub_location", "o/n", "--hub_revision", ""}), "hub_revision is empty"));
  for (const char* name :
       {"student", "a/b/c", "/a", "a/", "a/b--c", "a/.b", "-a/b", "a/b.git", "a b/c", "./a", "a/ü"}) {
    INFO(name);
    CHECK(absl::StrContains(ErrorOf({"--hub_location", name}), "give ORG/NAME"));
  }
  CHECK(absl::StrContains(ErrorOf({"--hub_location", "o/n", "--hub_token", "hf_1"}), "HF_TOKEN"));
  const auto command = Parse({"--publish", "folder"});
  CHECK(absl::StrContains(command.status().message(), "hub_location is missing"));
}

TEST_CASE("a token is refused, and its value is not shown") {
  const testing::TempFolder folder;
  for (const std::string name :
       {"hub_token", "push_to_hub_token", "hf_token", "use_auth_token", "auth_token", "token"}) {
    INFO(name);
    const std::string path = folder.Write("config.yaml", absl::StrCat("hub_location: o/n\n", name, ": hf_abc\n"));
    const std::string section = folder.Write("section.yaml", absl::StrCat("training:\n  ", name, ": hf_abc\n"));
    const std::string list = folder.Write("list.yaml", absl::StrCat(name, ": [hf_abc]\n"));
    for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--" + name, "hf_abc"},
                                                      {"--" + name + "=hf_abc"},
                                                      {"--config_file", path},
                                                      {"--config_file", section},
                                                      {"--config_file", list}}) {
      const std::string error = ErrorOf(arguments);
      INFO(error);
      CHECK(absl::StrContains(error, absl::StrCat(name, ": the token comes from HF_TOKEN")));
      CHECK_FALSE(absl::StrContains(error, "hf_abc"));
    }
  }
}

TEST_CASE("publishing a folder is the only thing to do, and goes to the hub") {
  const auto error = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"--publish", "folder", "--hub_location", "o/n"});
    const auto command = Parse(more);
    return command.ok() ? "" : std::string(command.status().message());
  };
  CHECK(error({}) == "");
  CHECK(error({"--save_location", "both"}) == "");
  CHECK(error({"--save_location", "hub"}) == "");
  CHECK(absl::StrContains(error({"--plan", "--student_model", "s", "--alpha", "0"}), "--publish and --plan"));
  CHECK(absl::StrContains(error({"--generate", "other", "--prompt", "x"}), "--publish and --generate"));
  CHECK(absl::StrContains(error({"--show_batch"}), "--publish and --show_batch"));
  CHECK(absl::StrContains(error({"--save_location", "fsx"}), "save_location (or push_to_hub) says not to"));
  CHECK(absl::StrContains(error({"--push_to_hub", "false"}), "save_location (or push_to_hub) says not to"));
}

}  // namespace distill
