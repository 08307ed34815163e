// A step of distillation as the peers run it: "llm", logit distillation of Qwen2 shapes with a vocabulary of 151,936, 2
// x 512 random tokens a rank (bench/peers/hf_distill_llm.py), and "distilbert", BERT-base to six layers, 8 x 128 masked
// tokens a rank (bench/peers/hf_distill_bert.py), with random weights. Tokens per second, peak memory, and the
// machine's limit.
//
//   distillrun -np 2 build/bin/bench_train_step distilbert --bf16
//   distillrun -np 2 build/bin/bench_train_step llm --compare FOLDER     only the comparison with a peer's saved run
//   build/bin/bench_train_step llm_7b --device cuda --bf16   on a GPU: 1.5 billion parameters from 7 billion, 4 x 1024
//                                                            tokens, random weights drawn there
//
// Verifies the chunked loss against the reference on the first tokens, then times whole steps of the Trainer.
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/arguments.h"
#include "bench/machine.h"
#include "bench/train_step/compare.h"
#include "bench/train_step/recipe.h"
#include "bench/train_step/steps.h"
#include "libdistill/distill.h"
#include "libdistill/plan/memory_plan.h"
#include "libdistill/tensor/peak_memory.h"

namespace distill {
namespace {

double CountParameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : module.parameters()) count += parameter.numel();
  return static_cast<double>(count);
}

// A model's hidden states and head for 64 tokens, with and without the chunks.
absl::Status VerifyLoss(const BenchRecipe& recipe) {
  const torch::NoGradGuard no_grad;
  LanguageModel &teacher = *recipe.teacher, &student = *recipe.student;
  const torch::Tensor head = teacher.head_weight();  // both models in the teacher's type, on its device
  const torch::Tensor ids = torch::arange(64, head.device()).view({1, 64});
  DistillationInputs inputs;
  inputs.student_hidden = student.HeadInput(student.Hidden({ids, {}}).flatten(0, 1)).to(head.scalar_type());
  inputs.student_weight = student.head_weight().to(head.scalar_type());
  inputs.student_bias = student.head_bias();
  if (inputs.student_bias.defined()) inputs.student_bias = inputs.student_bias.to(head.scalar_type());
  inputs.teacher_hidden = teacher.HeadInput(teacher.Hidden({ids, {}}).flatten(0, 1));
  inputs.teacher_weight = head;
  inputs.teacher_bias = teacher.head_bias();
  inputs.labels = torch::arange(1, 65, head.device());
  inputs.labels.narrow(0, 50, 14).fill_(kIgnoreLabel);
  const DistillationOptions options;
  const double ours = DistillationLoss(inputs, options).loss.item<double>();
  const double reference = ReferenceDistillationLoss(inputs, options).loss.item<double>();
  if (std::abs(ours - reference) > 1e-2 * std::abs(reference)) {
    return absl::InternalError(absl::StrCat("the chunked loss gives ", ours, ", the reference ", reference));
  }
  return absl::OkStatus();
}

struct BenchOptions {
  std::string recipe, peer_folder, trace_file;
  bool bf16 = false, shard_teacher = false, products = false;
  int64_t steps = 8, zero_stage = 0, accumulation = 1;
};

// What each of `ranks` keeps at least: of the student's parameters the working copy, gradient, moments, and the master
// of a narrower working copy; of sharded blocks a part, and two whole ones at a time.
double LimitGiB(const BenchRecipe& recipe, const BenchOptions& options, int ranks) {
  const double state = options.bf16 ? 12 : 8, gradient = 4, working = options.bf16 ? 2 : 4;
  const auto weights = [&](const LanguageModel& model, bool is_sharded) {
    double elements = CountParameters(model), largest = 0, of_blocks = 0;
    for (const auto& block : model.BlockWeights()) {
      double of_block = 0;
      for (const torch::Tensor& weight : block) of_block += static_cast<double>(weight.numel());
      of_blocks += of_block;
      largest = std::max(largest, of_block);
    }
    if (is_sharded && ranks > 1) elements += of_blocks / ranks - of_blocks + 2 * largest;
    return elements * working;
  };
  const double kept = gradient / (options.zero_stage >= 2 ? ranks : 1) + state / (options.zero_stage >= 1 ? ranks : 1);
  return (CountParameters(*recipe.student) * kept + weights(*recipe.student, options.zero_stage == 3) +
          weights(*recipe.teacher, options.shard_teacher)) /
         (1 << 30);
}

// What a plan says that a rank needs (plan/memory_plan.h); 0 for models that it does not know.
double PlannedGiB(const BenchRecipe& recipe, const ProcessMemory& process, const BenchOptions& options, int ranks) {
  const bool is_on_gpu = !recipe.student->head_weight().is_cpu();
  const auto* teacher = dynamic_cast<const Decoder*>(recipe.teacher.get());
  const auto* student = dynamic_cast<const Decoder*>(recipe.student.get());
  if (teacher == nullptr || student == nullptr) return 0;
  MemoryPlanTask task;
  task.student = Planned(student->config());
  task.teacher = Planned(teacher->config());
  task.dtype = options.bf16 ? torch::kBFloat16 : torch::kFloat32;
  task.zero_stage = static_cast<int>(options.zero_stage);
  task.shard_teacher = options.shard_teacher;
  task.rows = recipe.rows;
  task.length = recipe.length;
  task.accumulation_steps = options.accumulation;
  task.world_size = task.ranks_per_host = ranks;
  task.on_gpu = is_on_gpu;
  task.device_bytes = DeviceMemoryBytes(recipe.student->head_weight().device());
  if (!is_on_gpu) task.process = process;
  const auto plan = PlanMemory(task);
  return plan.ok() ? static_cast<double>(plan->rank_bytes()) / (1 << 30) : 0;
}

absl::Status Bench(RunContext& run, const BenchOptions& bench) {
  const torch::Device device = run.device();
  if (bench.products && !device.is_cpu()) return absl::InvalidArgumentError("--products times products of CPUs");
  const auto& [name, peer_folder, trace_file, bf16, shard_teacher, products, steps, zero_stage, accumulation] = bench;
  torch::manual_seed(0);
  const torch::Dtype dtype = bf16 ? torch::kBFloat16 : torch::kFloat32;
  const ProcessMemory process = MeasureProcess(dtype);
  DISTILL_ASSIGN_OR_RETURN(const BenchRecipe recipe, MakeRecipe(name, "", dtype, device));
  DISTILL_RETURN_IF_ERROR(VerifyLoss(recipe));
  if (shard_teacher) DISTILL_RETURN_IF_ERROR(ShardFrozen(run, *recipe.teacher));
  TrainerOptions options;
  options.max_steps = steps;
  options.bf16 = SwitchOf(bf16);
  options.logging_steps = steps;
  options.zero_stage = zero_stage;
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, recipe.student, options));

  std::vector<TokenBatch> batches;
  for (int64_t i = 0; i < steps * accumulation; ++i) batches.push_back(recipe.random_batch(run.rank(), i));
  TimedSteps source(recipe, std::move(batches), static_cast<size_t>(accumulation), trace_file);
  DISTILL_ASSIGN_OR_RETURN(const TrainResult result, trainer->Fit(source));
  source.EndTrace();
  DISTILL_RETURN_IF_ERROR(run.communicator().Barrier());
  const double rate = MatrixRate(dtype, device);
  DISTILL_RETURN_IF_ERROR(run.communicator().Barrier());
  const auto micro_batches = static_cast<double>(accumulation);
  const double product_seconds = products ? micro_batches * ProductSeconds(recipe, dtype) : 0;
  if (run.rank() != 0) return absl::OkStatus();

  const double seconds = source.MedianSeconds(),
               tokens = micro_batches * static_cast<double>(recipe.rows * recipe.length);
  const std::string suffix =
      absl::StrCat(zero_stage > 0 ? absl::StrCat("/zero", zero_stage) : "", shard_teacher ? "/sharded-teacher" : "",
                   accumulation > 1 ? absl::StrCat("/accumulation", accumulation) : "");
  std::printf(
      "JSON {\"case\": \"%s/%s/%d%s\", \"device\": \"%s\", \"tokens_per_second\": %.2f, \"limit_tokens_per_second\": "
      "%.2f, "
      "\"step_ms\": %.1f, \"products_ms\": %.1f, \"memory_gib\": %.3f, \"limit_memory_gib\": %.3f, "
      "\"planned_memory_gib\": %.3f, \"loss\": %.4f}\n",
      name.c_str(), bf16 ? "bf16" : "fp32", run.world_size(), suffix.c_str(), device.is_cpu() ? "cpu" : "cuda",
      run.world_size() * tokens / seconds, run.world_size() * rate / recipe.flops_per_token, seconds * 1e3,
      product_seconds * 1e3, source.peak_gib(), LimitGiB(recipe, bench, run.world_size()),
      PlannedGiB(recipe, process, bench, run.world_size()), result.train_loss);
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments("A step of distillation, by recipe");
  distill::BenchOptions bench;
  distill::RunOptions run_options;
  std::string device = "cpu";
  arguments.Add("recipe", bench.recipe, "llm, llm_qwen3, llm_gemma2, llm_7b or distilbert")
      .Required()
      .OneOf({"llm", "llm_qwen3", "llm_gemma2", "llm_7b", "distilbert"});
  arguments.AddFlag("--bf16", bench.bf16, "bfloat16 working weights");
  arguments.Add("--device", device, "cpu (default) or cuda: the rank's GPU").OneOf({"cpu", "cuda"});
  arguments.AddFlag("--deterministic", run_options.deterministic, "the same bits from run to run");
  arguments.Add("--pin_threads", run_options.pin_threads, "each rank on cores of its own (default: true)");
  arguments.Add("--steps", bench.steps).Between(3, 1000);
  arguments.Add("--accumulation", bench.accumulation, "micro-batches of a step (default: 1)").Between(1, 64);
  arguments.Add("--zero_stage", bench.zero_stage).Between(0, 3);
  arguments.AddFlag("--products", bench.products,
                    "time the step's matrix products and one pass over the logits by themselves, too");
  arguments.AddFlag("--shard_teacher", bench.shard_teacher, "the weights of its blocks over ranks, too");
  arguments.Add("--trace", bench.trace_file,
                "write what the CPU and the GPU did in the last step there, for chrome://tracing or Perfetto");
  arguments.Add("--compare", bench.peer_folder,
                "what the recipe's peer wrote with --save: repeat its run, compare the losses");
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  run_options.device = device == "cuda" ? distill::DeviceChoice::kCuda : distill::DeviceChoice::kCpu;
  return distill::Run(run_options, [&](distill::RunContext& run) {
    return bench.peer_folder.empty() ? distill::Bench(run, bench)
                                     : distill::CompareWithPeer(run, bench.recipe, bench.peer_folder);
  });
}
