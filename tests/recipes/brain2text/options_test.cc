// rnn_args.yaml: each of its keys is honoured, or refused by its name.
#include "examples/brain2text/options.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "libdistill/config/config_file.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

// Every key of the public baseline's file, with values of our own.
constexpr char kRnnArgs[] = R"(
model:
  n_input_features: 64
  n_units: 96
  rnn_dropout: 0.3
  rnn_trainable: false
  n_layers: 3
  patch_size: 10
  patch_stride: 5
  input_network:
    n_input_layers: 1
    input_layer_sizes:
    - 64
    input_trainable: true
    input_layer_dropout: 0.25
gpu_number: '1'
mode: train
use_amp: true
output_dir: runs/of/rnn
checkpoint_dir: runs/of/rnn/best
init_from_checkpoint: false
init_checkpoint_path: None
save_best_checkpoint: false
save_all_val_steps: false
save_final_model: false
save_val_metrics: true
early_stopping: true
early_stopping_val_steps: 12
num_training_batches: 9000
lr_scheduler_type: cosine
lr_max: 0.004
lr_min: 0.0002
lr_decay_steps: 9000
lr_warmup_steps: 700
lr_max_day: 0.003
lr_min_day: 0.0003
lr_decay_steps_day: 9000
lr_warmup_steps_day: 300
beta0: 0.8
beta1: 0.99
epsilon: 0.2
weight_decay: 0.002
weight_decay_day: 0.0005
seed: 11
grad_norm_clip_value: 7
batches_per_train_log: 20
batches_per_val_step: 250
batches_per_save: 0
log_individual_day_val_PER: false
log_val_skip_logs: false
save_val_logits: true
save_val_data: false
dataset:
  data_transforms:
    white_noise_std: 0.9
    constant_offset_std: 0.1
    random_walk_std: 0.05
    random_walk_axis: 1
    static_gain_std: 0.02
    random_cut: 4
    smooth_kernel_size: 90
    smooth_data: false
    smooth_kernel_std: 3
  neural_dim: 64
  batch_size: 30
  n_classes: 1681
  max_seq_elements: 400
  days_per_batch: 2
  seed: 5
  num_dataloader_workers: 3
  loader_shuffle: false
  must_include_days: null
  test_percentage: 0.1
  feature_subset: null
  dataset_dir: data/of/days
  bad_trials_dict: null
  sessions:
  - t15.2023.08.11
  - t15.2023.08.13
  dataset_probability_val:
  - 0
  - 1
)";

absl::StatusOr<Brain2TextOptions> ReadArgs(const std::string& text) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/rnn_args.yaml";
  std::ofstream(path) << text;
  const char* arguments[] = {"brain2text", "--config_file", path.c_str()};
  const auto command =
      ParseCommand<Brain2TextOptions, Brain2TextFlags>(3, arguments, {"brain2text", ""}, CheckBrain2Text);
  if (!command.ok()) return command.status();
  return command->options;
}

std::string With(const std::string& from, const std::string& to) {
  std::string text = kRnnArgs;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("the public baseline's rnn_args.yaml is read as it is") {
  const auto read = ReadArgs(kRnnArgs);
  INFO(read.status());
  REQUIRE(read.ok());
  const std::map<std::string, std::string> expected = {{"n_input_features", "64"},
                                                       {"n_units", "96"},
                                                       {"rnn_dropout", "0.3"},
                                                       {"rnn_trainable", "false"},
                                                       {"n_layers", "3"},
                                                       {"patch_size", "10"},
                                                       {"patch_stride", "5"},
                                                       {"input_layer_sizes", "64"},
                                                       {"input_trainable", "true"},
                                                       {"input_layer_dropout", "0.25"},
                                                       {"bf16", "auto"},
                                                       {"output_dir", "runs/of/rnn"},
                                                       {"checkpoint_dir", "runs/of/rnn/best"},
                                                       {"save_best_checkpoint", "false"},
                                                       {"early_stopping", "true"},
                                                       {"early_stopping_val_steps", "12"},
                                                       {"max_steps", "9000"},
                                                       {"lr_scheduler_type", "cosine"},
                                                       {"learning_rate", "0.004"},
                                                       {"lr_min", "0.0002"},
                                                       {"warmup_steps", "700"},
                                                       {"lr_max_day", "0.003"},
                                                       {"lr_min_day", "0.0003"},
                                                       {"lr_warmup_steps_day", "300"},
                                                       {"adam_beta1", "0.8"},
                                                       {"adam_beta2", "0.99"},
                                                       {"adam_epsilon", "0.2"},
                                                       {"weight_decay", "0.002"},
                                                       {"weight_decay_day", "0.0005"},
                                                       {"seed", "11"},
                                                       {"max_grad_norm", "7"},
                                                       {"logging_steps", "20"},
                                                       {"eval_steps", "250"},
                                                       {"save_steps", "0"},
                                                       {"log_individual_day_val_PER", "false"},
                                                       {"white_noise_std", "0.9"},
                                                       {"constant_offset_std", "0.1"},
                                                       {"random_walk_std", "0.05"},
                                                       {"random_walk_axis", "1"},
                                                       {"static_gain_std", "0.02"},
                                                       {"random_cut", "4"},
                                                       {"smooth_kernel_size", "90"},
                                                       {"smooth_data", "false"},
                                                       {"smooth_kernel_std", "3"},
                                                       {"batch_size", "30"},
                                                       {"n_classes", "1681"},
                                                       {"max_seq_elements", "400"},
                                                       {"days_per_batch", "2"},
                                                       {"draw_seed", "5"},
                                                       {"dataloader_num_workers", "3"},
                                                       {"feature_subset", ""},
                                                       {"dataset_dir", "data/of/days"}};
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : ValuesOf(*read)) values[name] = value;
  for (const auto& [name, value] : expected) {
    INFO(name);
    REQUIRE(values.count(name) == 1);
    CHECK(values[name] == value);
  }
  CHECK(*SessionsOf(read->model) == std::vector<std::string>{"t15.2023.08.11", "t15.2023.08.13"});
  CHECK(*HeldOutSessions(*read) == std::vector<bool>{false, true});
}

TEST_CASE("the recipe's own files are read: the real run has the sizes that were asked for, the demo small ones") {
  const auto read = [](const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(absl::StrCat(SourceFolder(), "/examples/brain2text/", name)).rdbuf();
    auto options = ReadArgs(text.str());
    INFO(options.status());
    REQUIRE(options.ok());
    return *std::move(options);
  };
  const Brain2TextOptions real = read("brain2text.yaml");
  CHECK(real.trainer.max_steps == 150000);
  CHECK((real.batch_size == 48 && real.days_per_batch == 4));
  CHECK((real.model.n_layers == 5 && real.model.n_units == 1024 && real.model.n_classes == 41));
  CHECK((real.model.n_input_features == 512 && real.model.patch_size == 14 && real.model.patch_stride == 4));
  CHECK((real.model.rnn_dropout == 0.5 && real.trainer.max_grad_norm == 10));
  CHECK(SessionsOf(real.model)->size() == 45);
  const std::vector<bool> held_out = *HeldOutSessions(real);
  CHECK(std::count(held_out.begin(), held_out.end(), true) == 41);
  CHECK(SessionsOf(read("demo.yaml").model)->size() == 3);
}

TEST_CASE("rates and decay of the day layers become a group of parameters, and settle once") {
  const Brain2TextOptions settled = Settle(*ReadArgs(kRnnArgs));
  CHECK(FieldText(settled.trainer.parameter_groups) ==
        "day_* learning_rate=0.003 min_lr=0.0003 warmup_steps=300 weight_decay=0.0005");
  const GroupedSchedule schedule = ScheduleOf(settled.trainer, 9000);
  CHECK(schedule.At(701).rate == Approx(0.004));
  CHECK(schedule.At(301).of_groups[0] == Approx(0.003));
  CHECK(schedule.At(9001).rate == Approx(0.0002));
  CHECK(schedule.At(9001).of_groups[0] == Approx(0.0003));
  CHECK(settled.trainer.best_model.early_stopping_patience == 12);
  CHECK(settled.trainer.best_model.metric_for_best_model == "phoneme_error_rate");
  CHECK(ValuesOf(Settle(settled)) == ValuesOf(settled));
  Brain2TextOptions without_lowest = *ReadArgs(kRnnArgs);
  without_lowest.day.lr_min_day.reset();
  CHECK(ScheduleOf(Settle(without_lowest).trainer, 9000).At(9001).of_groups[0] == Approx(0.0002));
  Brain2TextOptions plain = settled;
  plain.day = {};
  plain.trainer.parameter_groups.clear();
  plain.checkpoint_dir.clear();
  CHECK(Settle(plain).trainer.parameter_groups.empty());
  CHECK(Settle(plain).checkpoint_dir == "runs/of/rnn/checkpoint");
  plain.dataset_probability_val = "0,0";
  CHECK(Settle(plain).trainer.eval_steps == 0);
}

TEST_CASE("what a key of rnn_args.yaml cannot have is refused by its name") {
  const std::vector<std::array<const char*, 3>> cases = {
      {"n_input_layers: 1", "n_input_layers: 2", "each day has one input layer"},
      {"    - 64\n", "    - 64\n    - 32\n", "input_layer_sizes: 64, 32"},
      {"    - 64\n", "    - 65\n", "input_layer_sizes: 65"},
      {"mode: train", "mode: eval", "mode: eval: --predict SPLIT evaluates"},
      {"init_from_checkpoint: false", "init_from_checkpoint: true", "files of torch.save are not read here"},
      {"init_checkpoint_path: None", "init_checkpoint_path: best.pt", "init_checkpoint_path"},
      {"save_all_val_steps: false", "save_all_val_steps: true", "save_steps says when"},
      {"save_val_data: false", "save_val_data: true", "save_val_data"},
      {"lr_scheduler_type: cosine", "lr_scheduler_type: linear", "lr_scheduler_type: linear"},
      {"lr_decay_steps: 9000", "lr_decay_steps: 8000", "lr_decay_steps is 8000, and num_training_batches 9000"},
      {"lr_decay_steps_day: 9000", "lr_decay_steps_day: 1", "lr_decay_steps_day is 1"},
      {"lr_min: 0.0002", "lr_min: 0.2", "lr_min is above lr_max"},
      {"lr_min_day: 0.0003", "lr_min_day: 0.2", "lr_min_day is above lr_max_day"},
      {"must_include_days: null", "must_include_days: [1]", "must_include_days"},
      {"bad_trials_dict: null", "bad_trials_dict: [1]", "bad_trials_dict"},
      {"feature_subset: null", "feature_subset: [1, 2]", "feature_subset has 2 features, and n_input_features is 64"},
      {"feature_subset: null", "feature_subset: [one]", "feature_subset: give numbers"},
      {"neural_dim: 64", "neural_dim: 63", "n_input_features"},
      {"random_walk_axis: 1", "random_walk_axis: 0", "random_walk_axis: 0 is the axis of trials"},
      {"patch_stride: 5", "patch_stride: 0", "patch_stride must be at least 1"},
      {"  - t15.2023.08.13\n", "  - t15.2023.08.11\n", "t15.2023.08.11 is there twice"},
      {"  - 0\n  - 1\n", "  - 0\n", "dataset_probability_val: give 0 or 1 for each of the 2 sessions"},
      {"  - 0\n  - 1\n", "  - 0\n  - 0.5\n", "dataset_probability_val"},
      {"  dataset_dir: data/of/days\n", "", "dataset_dir is missing"},
      {"num_training_batches: 9000\n", "", "num_training_batches is missing"},
      {"n_units: 96", "n_unit: 96", "model: unknown key 'n_unit'; did you mean 'n_units'?"}};
  for (const auto& [from, to, text] : cases) {
    const absl::Status refused = ReadArgs(With(from, to)).status();
    INFO(to << ": " << refused);
    CHECK(absl::IsInvalidArgument(refused));
    CHECK_THAT(std::string(refused.message()), Catch::Contains(text));
  }
}

TEST_CASE("groups of parameters take the place of the day layers' rates: both are refused, unless they agree") {
  Brain2TextOptions options = Settle(*ReadArgs(kRnnArgs));
  CHECK(CheckBrain2Text(options, {}) == absl::OkStatus());  // as resolved_config.yaml has them
  options.trainer.parameter_groups[0].learning_rate = 0.001;
  const absl::Status both = CheckBrain2Text(options, {});
  INFO(both);
  CHECK(absl::IsInvalidArgument(both));
  CHECK_THAT(std::string(both.message()), Catch::Contains("parameter_groups takes the place of lr_max_day"));
  options.day = {};
  CHECK(CheckBrain2Text(options, {}) == absl::OkStatus());
}

TEST_CASE("flags that do not go together are refused") {
  const auto refused = [](const Brain2TextFlags& flags) {
    Brain2TextOptions options;
    options.dataset_dir = "data";
    return std::string(CheckBrain2Text(options, flags).message());
  };
  const auto with = [](const std::string& predict, const std::string& model) {
    Brain2TextFlags flags;
    flags.predict = predict;
    flags.trained_model = model;
    return flags;
  };
  CHECK_THAT(refused(with("", "folder")), Catch::Contains("go with --predict"));
  CHECK_THAT(refused(with("other", "folder")), Catch::Contains("the splits are train, val and test"));
  CHECK_THAT(refused(with("val", "")), Catch::Contains("trained_model is missing"));
  CHECK(refused(with("test", "folder")).empty());
}

}  // namespace
}  // namespace distill
