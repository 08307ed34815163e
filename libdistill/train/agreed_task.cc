#include "libdistill/train/agreed_task.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/description.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/model_content.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/unbacked.h"
#include "libdistill/train/trainer.h"

namespace distill {
namespace {

std::string DescribeTensor(const torch::Tensor& tensor) {
  return absl::StrCat(ShapeToString(tensor.sizes()), " ", c10::toString(tensor.scalar_type()),
                      HasMemory(tensor) ? "" : ", not loaded yet");
}

// Of all that a task's passes report.
absl::StatusOr<std::vector<std::string>> NamesOf(const std::vector<TermWeight>& terms,
                                                 const std::vector<std::string>& reported) {
  if (terms.empty()) return absl::InvalidArgumentError("the task names no loss term (Task::LossTerms)");
  std::vector<std::string> names;
  for (const TermWeight& term : terms) names.push_back(term.name);
  for (const std::string& name : reported) {
    if (name == kLossName || std::find(names.begin(), names.end(), name) != names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Task::Reported names '", name, "', which is the name of the loss or of one of its terms"));
    }
    names.push_back(name);
  }
  return names;
}

// What must be the same on every rank: ranks that disagree on it would wait for each other in vain.
absl::StatusOr<Fields> FingerprintOf(Task& task, const torch::nn::Module& module, const AgreedTask& agreed,
                                     int64_t first_epoch) {
  Evaluator* evaluator = task.evaluator();
  Fields fields = {{"the number of steps", absl::StrCat(agreed.total_steps)},
                   {"steps of the first epoch", absl::StrCat(first_epoch)},
                   {"whether there is held-out data", absl::StrCat(evaluator != nullptr)}};
  for (const TermWeight& term : agreed.terms) fields.emplace_back("loss term " + term.name, NumberText(term.weight));
  DISTILL_ASSIGN_OR_RETURN(const Fields of_task, task.Fingerprint());
  fields.insert(fields.end(), of_task.begin(), of_task.end());
  if (evaluator != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(const Fields held_out, evaluator->Fingerprint());
    for (const auto& [name, value] : held_out) fields.emplace_back(absl::StrCat(name, " of the held-out data"), value);
  }
  for (const auto& [name, rows] : task.TrainedRows(module)) {
    fields.emplace_back("trained rows of " + name, absl::StrCat(rows));
  }
  return fields;
}

}  // namespace

Fields FingerprintOf(const torch::nn::Module& module, c10::Device device, const TrainerOptions& options) {
  Fields fields = options.resolved_config;
  for (auto& field : ValuesOf(options)) fields.push_back(std::move(field));
  fields.emplace_back("the type that bf16 and fp16 come to", c10::toString(WorkingType(options, device)));
  fields.emplace_back("the device that was chosen", c10::DeviceTypeName(device.type(), /*lower_case=*/true));
  for (const auto& [name, value] : ContentOf(module)) {
    fields.emplace_back(absl::StrCat(name, " of the trained model"), value);
  }
  const auto add = [&fields](const char* kind, const auto& tensors) {
    for (const auto& item : tensors) fields.emplace_back(absl::StrCat(kind, item.key()), DescribeTensor(item.value()));
  };
  add("parameter ", module.named_parameters());
  add("buffer ", module.named_buffers());
  return fields;
}

absl::StatusOr<AgreedTask> AgreeOnTask(RunContext& run, Task& task, const torch::nn::Module& module,
                                       const TrainerOptions& options, EpochCounter& epochs,
                                       const std::function<absl::Status()>& also) {
  AgreedTask agreed;
  Fields fields;
  std::vector<std::string> names;
  int64_t whole = 0;
  const absl::Status mine = CatchTorch([&]() -> absl::Status {
    agreed.terms = task.LossTerms();
    DISTILL_ASSIGN_OR_RETURN(names, NamesOf(agreed.terms, task.Reported()));
    whole = run.rank() == 0 && !task.saves_in_order() ? 1 : 0;
    task.Start(run.device());
    DISTILL_ASSIGN_OR_RETURN(const int64_t first_epoch, task.StepsInEpoch(0));
    agreed.total_steps = options.max_steps > 0 ? options.max_steps : epochs.StepsOf(options.num_train_epochs);
    if (task.evaluator() == nullptr && AsksForEvaluations(options)) {
      return absl::InvalidArgumentError(
          "options ask for evaluations (eval_strategy, eval_steps, eval_on_start, metric_for_best_model, "
          "load_best_model_at_end or early_stopping_patience), but the task has no held-out data (Task::evaluator)");
    }
    DISTILL_ASSIGN_OR_RETURN(fields, FingerprintOf(task, module, agreed, first_epoch));
    return also();
  });
  Communicator& comm = run.communicator();
  DISTILL_RETURN_IF_ERROR(Agree(comm, mine));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm, fields));
  DISTILL_ASSIGN_OR_RETURN(agreed.names, UnionOfNames(comm, names));
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(&whole, &whole, 1, DType::kInt64, ReduceOp::kMax));
  agreed.writes_whole = whole != 0;
  return agreed;
}

}  // namespace distill
