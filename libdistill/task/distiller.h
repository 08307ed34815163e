// Distillation as a task: a teacher, a student, and batches of text.
//
//   DISTILL_ASSIGN_OR_RETURN(auto task, Distiller::Create(teacher, student, std::move(batches), {.temperature = 2}));
//   task->SetHeldOut(std::move(held_out));
//   trainer->Fit(*task);
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/task/batch_task.h"
#include "libdistill/task/logit_distillation.h"
#include "libdistill/task/masked_distillation.h"

namespace distill {

// Logit distillation (task/logit_distillation.h says what is computed, reported and refused).
class Distiller : public BatchTask<TokenBatch> {
 public:
  // `teacher` may be null when alpha is 0: training on labels alone.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Distiller>> Create(std::shared_ptr<LanguageModel> teacher,
                                                                         std::shared_ptr<LanguageModel> student,
                                                                         TokenBatches batches,
                                                                         const DistillationOptions& options) {
    DISTILL_ASSIGN_OR_RETURN(auto objective,
                             LogitDistillation::CreateLive(std::move(teacher), std::move(student), options));
    return std::make_unique<Distiller>(std::move(batches), std::move(objective));
  }
  Distiller(TokenBatches batches, std::shared_ptr<const LogitDistillation> objective)
      : BatchTask<TokenBatch>(std::move(batches), std::move(objective)) {}
};

// DistilBERT's three losses (task/masked_distillation.h), of batches whose labels are the words that masks hide.
class MaskedDistiller : public BatchTask<TokenBatch> {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<MaskedDistiller>> Create(std::shared_ptr<LanguageModel> teacher,
                                                                               std::shared_ptr<LanguageModel> student,
                                                                               Batches<TokenBatch> batches,
                                                                               const MaskedDistillerOptions& options) {
    DISTILL_ASSIGN_OR_RETURN(auto objective,
                             MaskedDistillation::Create(LiveTeacher(std::move(teacher)), std::move(student), options));
    return std::make_unique<MaskedDistiller>(std::move(batches), std::move(objective));
  }
  MaskedDistiller(Batches<TokenBatch> batches, std::shared_ptr<const MaskedDistillation> objective)
      : BatchTask<TokenBatch>(std::move(batches), std::move(objective)) {}
};

}  // namespace distill
