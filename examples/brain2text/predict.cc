#include "examples/brain2text/predict.h"

#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "examples/brain2text/brain_task.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/trainer.h"

namespace distill {
namespace {

// The public data's classes from 1 on.
constexpr const char* kPhonemes[] = {"AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY", "F",
                                     "G",  "HH", "IH", "IY", "JH", "K",  "L", "M",  "N", "NG", "OW", "OY", "P",  "R",
                                     "S",  "SH", "T",  "TH", "UH", "UW", "V", "W",  "Y", "Z",  "ZH", "|"};

struct Predicting {
  std::shared_ptr<DayGru> model;
  std::shared_ptr<BrainRecordings> recordings;
  std::shared_ptr<PhonemeObjective> objective;
  std::unique_ptr<BatchEvaluator<TensorBatch>> evaluator;
};

absl::Status WritePredictions(const std::map<int64_t, SpelledTrial>& trials, const BrainRecordings& recordings,
                              int64_t n_classes, const std::string& path) {
  std::string text = recordings.has_labels() ? "session,trial,predicted,target,edits\n" : "session,trial,predicted\n";
  for (const auto& [sample, trial] : trials) {
    absl::StrAppend(&text, recordings.sessions()[static_cast<size_t>(trial.day)], ",", recordings.name_of(sample), ",",
                    TextOfClasses(trial.spelled, n_classes));
    if (recordings.has_labels()) {
      absl::StrAppend(&text, ",", TextOfClasses(trial.target, n_classes), ",",
                      EditDistance(trial.spelled, trial.target));
    }
    absl::StrAppend(&text, "\n");
  }
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(path, text));
  LogInfo(absl::StrCat(trials.size(), " predictions are in ", path));
  return absl::OkStatus();
}

std::string PathOfPredictions(const Brain2TextFlags& flags) {
  return flags.predictions.empty() ? JoinPath(flags.trained_model, absl::StrCat(flags.predict, "_predictions.csv"))
                                   : flags.predictions;
}

absl::StatusOr<Predicting> PreparePrediction(RunContext& run, Brain2TextOptions options, const Brain2TextFlags& flags) {
  Predicting made;
  DISTILL_ASSIGN_OR_RETURN(made.model, LoadDayGru(flags.trained_model));
  made.model->to(run.device());
  const std::string sessions = options.model.sessions;
  options.model = made.model->options();
  if (!sessions.empty() && sessions != options.model.sessions) {
    return absl::InvalidArgumentError(absl::StrCat("sessions are not those that ", flags.trained_model,
                                                   " was trained on, which are ", options.model.sessions,
                                                   ": each has an input layer of its own; leave them out"));
  }
  DISTILL_ASSIGN_OR_RETURN(std::vector<bool> wanted, HeldOutSessions(options));
  if (flags.predict == "train") wanted.clear();
  DISTILL_ASSIGN_OR_RETURN(
      made.recordings, BrainRecordings::Open(options, flags.predict, wanted, BrainRecordings::Labels::kWhereTheyAre));
  PhonemeOptions how = PhonemeOptionsOf(options);
  how.has_labels = made.recordings->has_labels();
  DISTILL_ASSIGN_OR_RETURN(made.objective, PhonemeObjective::Create(made.model, nullptr, how));
  made.objective->SetListener([recordings = made.recordings, classes = options.model.n_classes,
                               path = PathOfPredictions(flags)](const std::map<int64_t, SpelledTrial>& trials) {
    return WritePredictions(trials, *recordings, classes, path);
  });
  DISTILL_ASSIGN_OR_RETURN(auto batches, HeldOutBatches(run.world(), options, made.recordings));
  made.evaluator = std::make_unique<BatchEvaluator<TensorBatch>>(std::move(batches), made.objective);
  made.evaluator->SetLoader(options.loader);
  return made;
}

}  // namespace

std::string TextOfClasses(const std::vector<int64_t>& classes, int64_t n_classes) {
  return absl::StrJoin(classes, " ", [&](std::string* out, int64_t number) {
    const bool is_named =
        (n_classes == kPhonemeClasses || n_classes == kDiphoneClasses) && number >= 1 && number < kPhonemeClasses;
    absl::StrAppend(out, is_named ? kPhonemes[number - 1] : absl::StrCat(number));
  });
}

absl::Status Predict(RunContext& run, const Brain2TextOptions& options, const Brain2TextFlags& flags) {
  absl::StatusOr<Predicting> made = absl::UnknownError("not prepared");
  const absl::Status prepared = CatchTorch([&] { return (made = PreparePrediction(run, options, flags)).status(); });
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), prepared));
  TrainerOptions trainer_options = options.trainer;
  trainer_options.output_dir.clear();  // nothing is trained
  trainer_options.best_model = {};
  trainer_options.parameter_groups.clear();
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, made->model, trainer_options));
  DISTILL_ASSIGN_OR_RETURN(const MetricValues metrics, trainer->Evaluate(*made->evaluator));
  if (run.rank() != 0) return absl::OkStatus();
  for (const auto& [name, value] : metrics) std::printf("%s = %.4f\n", name.c_str(), value);
  return absl::OkStatus();
}

}  // namespace distill
