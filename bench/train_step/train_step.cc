// A step of logit distillation as the peers run it (bench/peers/hf_distill_llm.py): Qwen2 shapes with a vocabulary of
// 151,936, random weights, 2 x 512 random tokens a rank. Tokens per second, peak memory, and the machine's limit.
//
//   distillrun -np 2 build/bin/bench_train_step --bf16
//   distillrun -np 2 build/bin/bench_train_step --compare FOLDER     only the comparison with a peer's saved run
//
// Verifies the chunked loss against the reference on the first tokens, then times whole steps of the Trainer.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/machine.h"
#include "bench/train_step/compare.h"
#include "bench/train_step/steps.h"
#include "libdistill/core/random.h"
#include "libdistill/distill.h"

namespace distill {
namespace {

constexpr int64_t kVocabulary = 151936;
constexpr int64_t kRows = 2, kLength = 512;

struct Shape {
  int64_t hidden, layers, heads, key_value_heads, intermediate;
};
constexpr Shape kTeacher = {512, 8, 8, 2, 2816};
constexpr Shape kStudent = {256, 4, 4, 2, 1408};

absl::StatusOr<std::shared_ptr<Decoder>> MakeModel(const Shape& shape, torch::Dtype dtype) {
  const std::string json = absl::StrCat(
      R"({"model_type": "qwen2", "vocab_size": )", kVocabulary, R"(, "hidden_size": )", shape.hidden,
      R"(, "num_hidden_layers": )", shape.layers, R"(, "num_attention_heads": )", shape.heads,
      R"(, "num_key_value_heads": )", shape.key_value_heads, R"(, "intermediate_size": )", shape.intermediate,
      R"(, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 4096, )",
      R"("tie_word_embeddings": true, "initializer_range": 0.02})");
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ParseDecoderConfig(json, "bench"));
  auto model = std::make_shared<Decoder>(config);
  model->to(dtype);
  return model;
}

int64_t CountParameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

// Random tokens, the same for the same rank.
std::vector<TokenBatch> RandomBatches(int rank, int64_t steps) {
  Random random(7, rank);
  std::vector<TokenBatch> batches;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<int64_t> ids(kRows * kLength);
    for (int64_t& id : ids) id = static_cast<int64_t>(random.Below(150000));
    batches.push_back(RowsOfTokens(ids, kRows, kLength));
  }
  return batches;
}

absl::Status VerifyLoss(LanguageModel& teacher, LanguageModel& student) {
  torch::NoGradGuard no_grad;
  const torch::Tensor ids = torch::arange(64).view({1, 64});
  DistillationInputs inputs;
  inputs.student_hidden = student.Hidden({ids, {}}).flatten(0, 1);
  inputs.student_weight = student.head_weight();
  inputs.teacher_hidden = teacher.Hidden({ids, {}}).flatten(0, 1);
  inputs.teacher_weight = teacher.head_weight();
  inputs.labels = torch::arange(1, 65);
  const DistillationOptions options;
  const double ours = DistillationLoss(inputs, options).loss.item<double>();
  const double reference = ReferenceDistillationLoss(inputs, options).loss.item<double>();
  if (std::abs(ours - reference) > 1e-2 * std::abs(reference)) {
    return absl::InternalError(absl::StrCat("the chunked loss gives ", ours, ", the reference ", reference));
  }
  return absl::OkStatus();
}

absl::Status Bench(RunContext& run, bool bf16, int64_t steps) {
  torch::manual_seed(0);
  const torch::Dtype dtype = bf16 ? torch::kBFloat16 : torch::kFloat32;
  DISTILL_ASSIGN_OR_RETURN(const auto teacher, MakeModel(kTeacher, dtype));
  DISTILL_ASSIGN_OR_RETURN(const auto student, MakeModel(kStudent, torch::kFloat32));
  const double student_parameters = static_cast<double>(CountParameters(*student));
  const double teacher_parameters = static_cast<double>(CountParameters(*teacher));
  DISTILL_ASSIGN_OR_RETURN(Distiller distiller, Distiller::Create(teacher, student, {}));
  TrainerOptions options;
  options.max_steps = steps;
  options.bf16 = bf16;
  options.logging_steps = steps;
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, student, options));
  DISTILL_RETURN_IF_ERROR(VerifyLoss(*teacher, *student));

  TimedSteps source(distiller, RandomBatches(run.rank(), steps));
  DISTILL_ASSIGN_OR_RETURN(const TrainResult result, trainer->Fit(source));
  const double peak_gib = PeakGiB();
  DISTILL_RETURN_IF_ERROR(run.communicator().Barrier());
  const double rate = MatrixRate(dtype);
  if (run.rank() != 0) return absl::OkStatus();

  // Model FLOPs: student 6, teacher 2 a parameter and token (heads included, embeddings are tied), and attention's two
  // products over half the sequence.
  const auto attention = [](const Shape& shape) { return 2.0 * shape.layers * shape.hidden * kLength; };
  const double flops = 6 * student_parameters + 2 * teacher_parameters + 3 * attention(kStudent) + attention(kTeacher);
  const double seconds = source.MedianSeconds();
  const double state_gib = (student_parameters * (bf16 ? 18 : 16) + teacher_parameters * (bf16 ? 2 : 4)) / (1 << 30);
  std::printf(
      "JSON {\"case\": \"llm/%s/%d\", \"tokens_per_second\": %.2f, \"limit_tokens_per_second\": %.2f, "
      "\"step_ms\": %.1f, \"memory_gib\": %.3f, \"limit_memory_gib\": %.3f, \"loss\": %.4f}\n",
      bf16 ? "bf16" : "fp32", run.world_size(), run.world_size() * kRows * kLength / seconds,
      run.world_size() * rate / flops, seconds * 1e3, peak_gib, state_gib, result.train_loss);
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  CLI::App app("A step of logit distillation with a vocabulary of 151,936");
  bool bf16 = false;
  int64_t steps = 8;
  app.add_flag("--bf16", bf16, "bfloat16 working weights");
  std::string peer_folder;
  app.add_option("--steps", steps)->check(CLI::Range(4, 1000));
  app.add_option("--compare", peer_folder, "what hf_distill_llm.py --save wrote: repeat its run, compare the losses");
  CLI11_PARSE(app, argc, argv);
  return distill::Run({}, [&](distill::RunContext& run) {
    return peer_folder.empty() ? distill::Bench(run, bf16, steps) : distill::CompareWithPeer(run, peer_folder);
  });
}
