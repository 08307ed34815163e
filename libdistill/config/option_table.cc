#include "libdistill/config/option_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libdistill/config/foreign_names.h"

namespace distill {
namespace {

constexpr char kRunGroup[] = "Run";
constexpr char kDataGroup[] = "Data";
constexpr char kModelGroup[] = "Models and loss";
constexpr char kTrainGroup[] = "Training";
constexpr char kRecordGroup[] = "Logging and checkpoints";

using C = LlmConfig;

std::vector<Option> MakeOptions() {
  return {
      {"project_name", &C::project_name, kRunGroup, "name of the run, in logs"},
      {"output_dir",
       &C::output_dir,
       kRunGroup,
       "folder of the trained student, checkpoints and metrics",
       {.is_path = true}},
      {"overwrite_output_dir", &C::overwrite_output_dir, kRunGroup,
       "replace the student that lies there, and remove its run's checkpoints, unless they are resumed from"},
      {"seed", &C::seed, kRunGroup, "seed of shuffles and of random weights", {.low = 0}},
      {"device", &C::device, kRunGroup, "where to compute", {.choices = {"auto", "cpu", "cuda"}}},
      {"deterministic", &C::deterministic, kRunGroup,
       "the same bits from run to run of as many ranks and threads; free on CPUs, slower on GPUs"},
      {"pin_threads", &C::pin_threads, kRunGroup,
       "ranks of a host divide its cores, and each stays on its own, unless a launcher or the user has bound it"},
      {"comm_backend",
       &C::comm_backend,
       kRunGroup,
       "how ranks exchange gradients; auto: nccl where each rank has a GPU of one host, else shm inside a host, fabric "
       "between, hierarchical for both",
       {.choices = {"auto", "shm", "fabric", "hierarchical", "mpi", "nccl"}}},
      {"comm_algorithm",
       &C::comm_algorithm,
       kRunGroup,
       "how gradients are summed between hosts; auto: the fastest for the size, by the table of costs; flat: the "
       "fastest "
       "that does not work inside the hosts first",
       {.choices = {"auto", "flat", "recursive_doubling", "direct_exchange", "rabenseifner", "ring", "hierarchical"}}},
      {"comm_tuning_file",
       &C::comm_tuning_file,
       kRunGroup,
       "table of costs for comm_algorithm auto, as distillrun --tune writes it; rank 0's is every rank's",
       {.is_path = true}},
      {"comm_timeout_seconds",
       &C::comm_timeout_seconds,
       kRunGroup,
       "longest time that a rank waits for the others",
       {.low = 0, .low_is_excluded = true}},
      {"heartbeat_timeout_seconds",
       &C::heartbeat_timeout_seconds,
       kRunGroup,
       "how long a rank may be silent (stopped, or cut off) before it is lost; computing is no silence",
       {.low = 0, .low_is_excluded = true}},

      {"dataset_name",
       &C::dataset_name,
       kDataGroup,
       "chat data: a .jsonl file, or a folder of them",
       {.is_path = true}},
      {"dataset_split", &C::dataset_split, kDataGroup,
       "of a folder, not of a file: the files whose names start with it"},
      {"num_samples", &C::num_samples, kDataGroup, "only the first so many usable rows; 0: all", {.low = 0}},
      {"eval_dataset_name", &C::eval_dataset_name, kDataGroup, "held-out chat data", {.is_path = true}},
      {"eval_split", &C::eval_split, kDataGroup, "of a folder of held-out data: the files whose names start with it"},
      {"max_length", &C::max_length, kDataGroup, "tokens of a row; longer conversations are cut", {.low = 2}},
      {"chat_template", &C::chat_template, kDataGroup,
       "chatml, llama3, a Jinja file or template text; empty: the tokenizer's own"},
      {"packing", &C::packing, kDataGroup, "several conversations in a row, without attention across them"},

      {"teacher_model",
       &C::teacher_model,
       kModelGroup,
       "model folder; may be empty when alpha is 0",
       {.is_path = true}},
      {"student_model",
       &C::student_model,
       kModelGroup,
       "model folder; one without weights gives random ones, drawn with seed",
       {.is_path = true}},
      {"use_flash_attention", &C::use_flash_attention, kModelGroup,
       "take torch's flash kernels and no others; needs a GPU and bf16"},
      {"temperature",
       &C::temperature,
       kModelGroup,
       "of both distributions of the KL divergence",
       {.low = 0, .low_is_excluded = true}},
      {"alpha", &C::alpha, kModelGroup, "share of the divergence; the rest is cross-entropy", {.low = 0, .high = 1}},
      {"beta",
       &C::beta,
       kModelGroup,
       "0: KL(teacher, student); 1: KL(student, teacher); between: Jensen-Shannon",
       {.low = 0, .high = 1}},
      {"layers_to_unfreeze",
       &C::layers_to_unfreeze,
       kModelGroup,
       "not supported yet",
       {.unsupported = "training only some layers is not supported yet; leave it out to train all of them"}},

      {"num_train_epochs",
       &C::num_train_epochs,
       kTrainGroup,
       "passes over the data",
       {.low = 0, .low_is_excluded = true}},
      {"max_steps", &C::max_steps, kTrainGroup, "above 0: steps, instead of num_train_epochs", {.low = -1}},
      {"per_device_train_batch_size",
       &C::per_device_train_batch_size,
       kTrainGroup,
       "rows of a micro-batch of one rank",
       {.low = 1}},
      {"gradient_accumulation_steps",
       &C::gradient_accumulation_steps,
       kTrainGroup,
       "micro-batches of a step",
       {.low = 1}},
      {"learning_rate", &C::learning_rate, kTrainGroup, "highest learning rate", {.low = 0}},
      {"weight_decay", &C::weight_decay, kTrainGroup, "AdamW's, not on norms and biases", {.low = 0}},
      {"warmup_ratio",
       &C::warmup_ratio,
       kTrainGroup,
       "share of the steps over which the learning rate rises",
       {.low = 0, .high = 1}},
      {"lr_scheduler_type",
       &C::lr_scheduler_type,
       kTrainGroup,
       "what the learning rate does after that",
       {.choices = {"cosine", "linear", "constant", "constant_with_warmup"}}},
      {"max_grad_norm", &C::max_grad_norm, kTrainGroup, "gradients are scaled down to this norm; 0: never", {.low = 0}},
      {"gradient_compression",
       &C::gradient_compression,
       kTrainGroup,
       "bf16: gradients travel in bfloat16, as by DDP's bf16_compress_hook",
       {.choices = {"none", "bf16"}}},
      {"zero_stage",
       &C::zero_stage,
       kTrainGroup,
       "1: each rank keeps a share of the optimizer's state; 2: and of the gradients; 3: and of the blocks' weights "
       "(embeddings and head stay whole)",
       {.low = 0, .high = 3}},
      {"shard_teacher", &C::shard_teacher, kTrainGroup,
       "each rank keeps a share of the weights of the teacher's blocks, as zero_stage 3 does of the student's"},
      {"gradient_checkpointing", &C::gradient_checkpointing, kTrainGroup,
       "compute each layer again in the backward pass: slower, far less memory"},
      {"fp16", &C::fp16, kTrainGroup,
       "compute in float16, with float32 master weights and a dynamic loss scale; for GPUs"},
      {"bf16", &C::bf16, kTrainGroup, "compute in bfloat16, with float32 master weights"},

      {"save_steps",
       &C::save_steps,
       kRecordGroup,
       "steps between checkpoints; 0: none, only the trained model",
       {.low = 0}},
      {"save_total_limit", &C::save_total_limit, kRecordGroup, "checkpoints to keep; 0: all", {.low = 0}},
      {"logging_steps", &C::logging_steps, kRecordGroup, "steps between records", {.low = 1}},
      {"eval_steps", &C::eval_steps, kRecordGroup, "steps between evaluations; 0: only at the end", {.low = 0}},
      {"resume_from_checkpoint",
       &C::resume_from_checkpoint,
       kRecordGroup,
       "a checkpoint folder, latest (or true) for the newest in output_dir, false (or none) to start anew",
       {.is_path = true}},
  };
}

// The shortest text that reads back to the same number.
std::string NumberToString(double value) {
  for (int digits = 6; digits < 17; ++digits) {
    std::string text = absl::StrFormat("%.*g", digits, value);
    double back = 0;
    if (absl::SimpleAtod(text, &back) && back == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

bool Parse(const std::string& text, std::string& value) {
  value = text;
  return true;
}
bool Parse(const std::string& text, int64_t& value) { return absl::SimpleAtoi(text, &value); }
bool Parse(const std::string& text, uint64_t& value) { return absl::SimpleAtoi(text, &value); }
bool Parse(const std::string& text, double& value) { return absl::SimpleAtod(text, &value) && std::isfinite(value); }
bool Parse(const std::string& text, bool& value) {
  const std::string lower = absl::AsciiStrToLower(text);
  value = lower == "true";
  return value || lower == "false";
}

std::string ToText(const std::string& value) { return value; }
std::string ToText(bool value) { return value ? "true" : "false"; }
std::string ToText(double value) { return NumberToString(value); }
std::string ToText(int64_t value) { return absl::StrCat(value); }
std::string ToText(uint64_t value) { return absl::StrCat(value); }

absl::Status CheckRange(const Option& option, double value) {
  const bool above = option.limits.low_is_excluded ? value > option.limits.low : value >= option.limits.low;
  if (above && value <= option.limits.high) return absl::OkStatus();
  const std::string low =
      absl::StrCat(option.limits.low_is_excluded ? "above " : "at least ", NumberToString(option.limits.low));
  const bool bounded = std::isfinite(option.limits.high);
  return absl::InvalidArgumentError(
      absl::StrCat("must be ", low, bounded ? absl::StrCat(" and at most ", NumberToString(option.limits.high)) : "",
                   ", not ", NumberToString(value)));
}

absl::Status CheckValue(const Option& option, const std::string& value) {
  if (!option.limits.choices.empty() &&
      std::find(option.limits.choices.begin(), option.limits.choices.end(), value) == option.limits.choices.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be one of ", absl::StrJoin(option.limits.choices, ", "), ", not '", value, "'"));
  }
  if (option.limits.is_path && absl::StartsWith(value, "s3://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("s3:// paths are not supported yet: ", value, "; copy it to a local folder"));
  }
  return absl::OkStatus();
}
absl::Status CheckValue(const Option&, bool) { return absl::OkStatus(); }
absl::Status CheckValue(const Option& option, double value) { return CheckRange(option, value); }
absl::Status CheckValue(const Option& option, int64_t value) { return CheckRange(option, static_cast<double>(value)); }
absl::Status CheckValue(const Option& option, uint64_t value) { return CheckRange(option, static_cast<double>(value)); }

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

const std::vector<Option>& Options() {
  static const std::vector<Option>& options = *new std::vector<Option>(MakeOptions());
  return options;
}

const Option* FindOption(absl::string_view name) {
  for (const Option& option : Options()) {
    if (name == option.name) return &option;
  }
  return nullptr;
}

const char* KindOf(const Option& option) {
  static constexpr const char* kKinds[] = {"text", "true or false", "a whole number", "a whole number", "a number"};
  return kKinds[option.field.index()];
}

std::string GetOption(const LlmConfig& config, const Option& option) {
  return std::visit([&](auto field) { return ToText(config.*field); }, option.field);
}

absl::Status SetOption(LlmConfig& config, const Option& option, const std::string& text) {
  return std::visit(
      [&](auto field) -> absl::Status {
        auto value = config.*field;
        if (!Parse(text, value)) {
          return absl::InvalidArgumentError(absl::StrCat("expected ", KindOf(option), ", not '", text, "'"));
        }
        if (option.limits.unsupported != nullptr && value != LlmConfig().*field) {
          return absl::InvalidArgumentError(option.limits.unsupported);
        }
        if (absl::Status status = CheckValue(option, value); !status.ok()) return status;
        config.*field = value;
        return absl::OkStatus();
      },
      option.field);
}

absl::Status UnknownName(absl::string_view what, absl::string_view name, const std::vector<std::string>& known) {
  absl::string_view bare = name;
  const char* dashes = absl::ConsumePrefix(&bare, "--") ? "--" : "";
  const char* own = OwnNameOf(bare);
  if (own != nullptr && std::find(known.begin(), known.end(), absl::StrCat(dashes, own)) != known.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown ", what, " '", name, "'; here it is '", dashes, own, "' (--help says what that takes)"));
  }
  const auto nearest = std::min_element(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    return EditDistance(name, a) < EditDistance(name, b);
  });
  // Further away than a slip of the hand it would mislead.
  const bool is_near = EditDistance(name, *nearest) <= std::max<size_t>(1, name.size() / 3);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown ", what, " '", name, "'; ",
                   is_near ? absl::StrCat("did you mean '", *nearest, "'?") : "--help lists all options"));
}

}  // namespace distill
