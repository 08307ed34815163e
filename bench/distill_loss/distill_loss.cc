// Head and distillation loss, forward and backward, on random hidden states: time beside that of the matrix products
// alone in their best chunks, and memory at 1, 4 and 16 times the tokens. bench/peers/distill_loss.py times the peers.
//
//   build/bin/bench_distill_loss                              the shape of bench_train_step, on the CPU
//   build/bin/bench_distill_loss --device cuda --bf16 --chunk_tokens 1024 --tokens 8192 --vocabulary 128256
//                             --student 4096 --teacher 4096                a large head, on a GPU
//
// Verifies loss and gradients against the reference on the first tokens before anything is timed.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "bench/arguments.h"
#include "bench/machine.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/loss_memory.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/large_pages.h"
#include "libdistill/tensor/peak_memory.h"
#include "libdistill/world/process.h"

namespace distill {
namespace {

using torch::Tensor;

struct Case {
  int64_t tokens = 1024, vocabulary = 151936, student = 256, teacher = 512, chunk_tokens = 256;
  int64_t repetitions = 3;
  bool bf16 = false, without_memory = false;
  double beta = 0;
  std::string divergence;  // by its name; empty: what beta says
  std::string device = "cpu";
};

DistillationInputs MakeInputs(const Case& c, int64_t tokens) {
  torch::manual_seed(1);
  const torch::Device device(c.device);
  const torch::Dtype dtype = c.bf16 ? torch::kBFloat16 : torch::kFloat32;
  const auto random = [&](int64_t rows, int64_t columns, double scale) {
    return (torch::randn({rows, columns}, device) * scale).to(dtype);  // a large head takes a CPU many seconds
  };
  return {.student_hidden = random(tokens, c.student, 1).requires_grad_(),
          .student_weight = random(c.vocabulary, c.student, 0.02).requires_grad_(),
          .student_bias = {},
          .teacher_hidden = random(tokens, c.teacher, 1),
          .teacher_weight = random(c.vocabulary, c.teacher, 0.02),
          .teacher_bias = {},
          .labels = torch::randint(c.vocabulary, {tokens}, torch::kInt64).to(device)};
}

using Loss = DistillationSums (*)(const DistillationInputs&, const DistillationOptions&);

void ForwardBackward(Loss loss, DistillationInputs& inputs, const DistillationOptions& options) {
  inputs.student_hidden.mutable_grad().reset();
  inputs.student_weight.mutable_grad().reset();
  loss(inputs, options).loss.backward();
}

// In order.
template <typename F>
std::vector<double> SortedMs(const torch::Device& device, int64_t repetitions, F&& f) {
  std::vector<double> times;
  for (int64_t i = 0; i < repetitions; ++i) {
    Synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    f();
    Synchronize(device);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times;
}

int64_t ChunkOf(const Case& c, const DistillationOptions& options) {
  return ChunkTokens({.tokens = c.tokens,
                      .chunk_tokens = options.chunk_tokens,
                      .vocabulary = c.vocabulary,
                      .student_hidden = c.student,
                      .teacher_hidden = c.teacher,
                      .element_bytes = c.bf16 ? 2 : 4,
                      .on_gpu = c.device != "cpu",
                      .device_bytes = DeviceMemoryBytes(torch::Device(c.device))});
}

// The matrix products that no head can do without, chunk by chunk, and one pass over a chunk's logits: both models' are
// read and one written. The best time.
double ProductsMs(const DistillationInputs& inputs, int64_t chunk, int64_t repetitions) {
  const torch::NoGradGuard no_grad;
  const int64_t tokens = inputs.labels.size(0);
  const auto options = inputs.student_hidden.options().requires_grad(false);
  Tensor student = torch::empty({chunk, inputs.student_weight.size(0)}, options), teacher = torch::empty_like(student);
  Tensor of_hidden = torch::empty({chunk, inputs.student_hidden.size(1)}, options);
  Tensor of_weight = torch::zeros_like(inputs.student_weight);
  const auto products = [&] {
    for (int64_t first = 0; first < tokens; first += chunk) {
      const int64_t count = std::min(chunk, tokens - first);
      const Tensor hidden = inputs.student_hidden.narrow(0, first, count);
      Tensor s = student.narrow(0, 0, count), t = teacher.narrow(0, 0, count), h = of_hidden.narrow(0, 0, count);
      at::mm_out(s, hidden, inputs.student_weight.t());
      at::mm_out(t, inputs.teacher_hidden.narrow(0, first, count), inputs.teacher_weight.t());
      s.sub_(t);
      at::mm_out(h, s, inputs.student_weight);
      of_weight.addmm_(s.t(), hidden);
    }
  };
  return SortedMs(options.device(), repetitions, products).front();
}

struct Limit {
  double ms = 0;
  int64_t chunk = 0;
};

// In the chunks that suit these products best, whatever the loss takes: a limit is nobody's choice.
Limit BestProducts(const DistillationInputs& inputs, int64_t chunk_of_loss, int64_t repetitions) {
  const int64_t tokens = inputs.labels.size(0);
  std::vector<int64_t> chunks = {std::min(tokens, chunk_of_loss)};
  for (int64_t chunk = 128; chunk < tokens; chunk *= 2) chunks.push_back(chunk);
  chunks.push_back(tokens);
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  Limit best;
  for (const int64_t chunk : chunks) {
    const double ms = ProductsMs(inputs, chunk, repetitions);
    if (best.chunk == 0 || ms < best.ms) best = {ms, chunk};
  }
  return best;
}

DistillationOptions OptionsOf(const Case& c, int64_t chunk_tokens) {
  DistillationOptions options{.beta = c.beta, .chunk_tokens = chunk_tokens};
  if (!c.divergence.empty()) ParseField(c.divergence, options.divergence);
  return options;
}

absl::Status Verify(const Case& c) {
  DistillationInputs inputs = MakeInputs(c, std::min<int64_t>(c.tokens, 48));
  const DistillationOptions options = OptionsOf(c, 20);
  const double tolerance = c.bf16 ? 2e-2 : 1e-4;
  const double ours = DistillationLoss(inputs, options).loss.item<double>();
  const double expected = ReferenceDistillationLoss(inputs, options).loss.item<double>();
  ForwardBackward(DistillationLoss, inputs, options);
  const Tensor gradient = inputs.student_hidden.grad().clone();
  ForwardBackward(ReferenceDistillationLoss, inputs, options);
  const Tensor difference = (gradient - inputs.student_hidden.grad()).abs().max();
  const Tensor largest = inputs.student_hidden.grad().abs().max();
  if (std::abs(ours - expected) <= tolerance * std::abs(expected) &&
      difference.item<double>() <= 4 * tolerance * largest.item<double>()) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("the chunked loss is ", ours, ", the reference ", expected,
                                          "; gradients differ by ", difference.item<double>(), " of ",
                                          largest.item<double>()));
}

// GiB above inputs and gradients.
double MemoryGiB(const Case& c, int64_t tokens, const DistillationOptions& options) {
  const torch::Device device(c.device);
  DistillationInputs inputs = MakeInputs(c, tokens);
  Synchronize(device);
  malloc_trim(0);  // what was freed must not hide what is taken
  ResetPeakMemory(device);
  const int64_t before = PeakMemoryBytes(device);
  ForwardBackward(DistillationLoss, inputs, options);
  Synchronize(device);
  const auto gradients = static_cast<int64_t>(inputs.student_hidden.nbytes() + inputs.student_weight.nbytes());
  return static_cast<double>(PeakMemoryBytes(device) - before - gradients) / (1 << 30);
}

absl::Status Bench(const Case& c) {
  DISTILL_RETURN_IF_ERROR(Verify(c));
  const DistillationOptions options = OptionsOf(c, c.chunk_tokens);
  const torch::Device device(c.device);
  std::vector<std::string> memory;
  for (int64_t tokens : {options.chunk_tokens, 4 * options.chunk_tokens, 16 * options.chunk_tokens}) {
    if (!c.without_memory) memory.push_back(absl::StrFormat("\"%d\": %.4f", tokens, MemoryGiB(c, tokens, options)));
  }
  DistillationInputs inputs = MakeInputs(c, c.tokens);
  const int64_t chunk = ChunkOf(c, options);
  const Limit limit = BestProducts(inputs, chunk, c.repetitions);
  ForwardBackward(DistillationLoss, inputs, options);  // memory, kernels and packed weights are there from here on
  const std::vector<double> ms =
      SortedMs(device, c.repetitions, [&] { ForwardBackward(DistillationLoss, inputs, options); });
  const double ours = ms[ms.size() / 2];
  std::printf("head and loss: %.0f ms in chunks of %ld tokens; the matrix products alone %.0f ms, in chunks of %ld\n",
              ours, chunk, limit.ms, limit.chunk);
  const int64_t logit_bytes = c.bf16 && c.device == "cpu" ? 2 : 4;  // on GPUs they are float32
  const double chunk_gib = 2.0 * static_cast<double>(chunk * c.vocabulary * logit_bytes) / (1 << 30);
  std::printf(
      "JSON {\"case\": \"%s/%s/%ld\", \"ms\": %.2f, \"limit_ms\": %.2f, \"memory_gib\": {%s}, \"limit_memory_gib\": "
      "%.4f}\n",
      c.device.c_str(), c.bf16 ? "bf16" : "fp32", c.tokens, ours, limit.ms, absl::StrJoin(memory, ", ").c_str(),
      chunk_gib);
  return absl::OkStatus();
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::PrepareProcess();
  distill::UseLargePages();  // as programs that train have it
  distill::Arguments arguments("Head and distillation loss: time and memory");
  distill::Case c;
  arguments.Add("--tokens", c.tokens).Positive();
  arguments.Add("--vocabulary", c.vocabulary).Positive();
  arguments.Add("--student", c.student, "hidden size").Positive();
  arguments.Add("--teacher", c.teacher, "hidden size").Positive();
  arguments.Add("--chunk_tokens", c.chunk_tokens).Positive();
  arguments.Add("--beta", c.beta, "0: forward KL, 1: reverse KL, between: Jensen-Shannon").Share();
  std::vector<std::string> names;
  for (const auto& each : distill::NamesOf(distill::Divergence())) names.push_back(each.name);
  arguments.Add("--divergence", c.divergence, "by its name; empty: what --beta says").OneOf(names);
  arguments.Add("--device", c.device, "cpu, or cuda");
  arguments.AddFlag("--bf16", c.bf16);
  arguments.Add("--repetitions", c.repetitions, "that are timed, after one that is not").Positive();
  arguments.AddFlag("--without_memory", c.without_memory, "times alone");
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  const absl::Status status = distill::CatchTorch([&] { return distill::Bench(c); });
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
