#include "examples/distilbert/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/task/distiller.h"

namespace distill {
namespace {

// A pass over fewer held-out tokens is over in no time: several are timed then, behind one that is not.
constexpr double kTokensTimed = 200'000;
constexpr double kMostPasses = 20;

struct Judged {
  double parameters = 0;
  std::optional<double> perplexity, tokens_per_second;  // none without held-out text
};

double ParametersOf(const torch::nn::Module& model) {
  double count = 0;
  for (const torch::Tensor& parameter : model.parameters()) count += static_cast<double>(parameter.numel());
  return count;
}

absl::StatusOr<double> TokensOf(const Dataset& dataset) {
  double tokens = 0;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    DISTILL_ASSIGN_OR_RETURN(const int64_t length, dataset.Length(i));
    tokens += static_cast<double>(length);
  }
  return tokens;
}

absl::StatusOr<Judged> Judge(RunContext& run, Trainer& trainer, const DistilBertOptions& options,
                             const MaskedText& text, std::shared_ptr<Encoder> model) {
  Judged judged{.parameters = ParametersOf(*model), .perplexity = {}, .tokens_per_second = {}};
  if (text.held_out == nullptr) return judged;
  absl::StatusOr<double> counted = TokensOf(*text.held_out);
  absl::StatusOr<TokenBatches> sharded = ShardHeldOut(options, text, run.world());
  absl::Status mine = counted.status();
  mine.Update(sharded.status());
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), mine));  // before the evaluation, which takes all ranks
  const double tokens = *counted;
  TokenBatches batches = *std::move(sharded);
  DISTILL_ASSIGN_OR_RETURN(
      auto words_alone,
      MaskedDistillation::Create(nullptr, std::move(model), {.kl_weight = 0, .mlm_weight = 1, .cosine_weight = 0}));
  BatchEvaluator<TokenBatch> evaluator(std::move(batches), std::move(words_alone));
  evaluator.SetLoader(options.loader);
  const double passes = std::clamp(std::ceil(kTokensTimed / tokens), 1.0, kMostPasses);  // the same on all ranks
  if (passes > 1) DISTILL_RETURN_IF_ERROR(trainer.Evaluate(evaluator).status());
  MetricValues metrics;
  const absl::Time began = absl::Now();
  for (double pass = 0; pass < passes; ++pass) {
    DISTILL_ASSIGN_OR_RETURN(metrics, trainer.Evaluate(evaluator));
  }
  judged.tokens_per_second = passes * tokens / absl::ToDoubleSeconds(absl::Now() - began);
  if (const auto found = metrics.find("perplexity"); found != metrics.end()) judged.perplexity = found->second;
  return judged;
}

void Print(const char* name, const Judged& judged) {
  std::printf("%-8s %12.0f parameters  %8.1f MiB", name, judged.parameters, judged.parameters * 4 / (1 << 20));
  if (judged.perplexity) std::printf("  perplexity %9.3f", *judged.perplexity);
  if (judged.tokens_per_second) std::printf("  %9.0f tokens/s", *judged.tokens_per_second);
  std::printf("\n");
}

}  // namespace

absl::Status CompareModels(RunContext& run, Trainer& trainer, const DistilBertOptions& options, const MaskedText& text,
                           const DistilBertModels& models) {
  std::optional<Judged> teacher;
  if (models.teacher != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(teacher, Judge(run, trainer, options, text, models.teacher));
  }
  DISTILL_ASSIGN_OR_RETURN(const Judged student, Judge(run, trainer, options, text, models.student));
  if (run.rank() != 0) return absl::OkStatus();
  if (teacher) Print("teacher", *teacher);
  Print("student", student);
  if (!teacher) return absl::OkStatus();
  std::printf("the student has %.0f %% of the teacher's parameters", 100 * student.parameters / teacher->parameters);
  if (student.perplexity && teacher->perplexity) {
    std::printf(", %.2f times its perplexity and %.2f times its speed", *student.perplexity / *teacher->perplexity,
                *student.tokens_per_second / *teacher->tokens_per_second);
  }
  std::printf("\n");
  return absl::OkStatus();
}

}  // namespace distill
