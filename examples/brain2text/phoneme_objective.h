// What a brain-to-text model is trained and judged by: CTC over the classes of each recording and, with a teacher, the
// divergence of the two models' frames; the error rate of what it spells.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/brain2text/day_gru.h"
#include "examples/brain2text/options.h"
#include "examples/brain2text/spelling.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/task/objective.h"

namespace distill {

struct PhonemeOptions {
  double temperature = 2;
  double alpha = 0.5;  // weight of the divergence; CTC has the rest
  CtcDecoder decoder = CtcDecoder::kGreedy;
  int64_t beam_width = 16;
  bool tells_days = true;  // metrics of each day
  bool has_labels = true;  // of what is evaluated
};
PhonemeOptions PhonemeOptionsOf(const Brain2TextOptions& options);

class PhonemeObjective : public Objective<TensorBatch> {
 public:
  // Takes what CollateRecordings makes. `teacher` may be null. InvalidArgument: a teacher of other features, days,
  // classes or patches.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<PhonemeObjective>> Create(std::shared_ptr<DayGru> model,
                                                                                std::shared_ptr<DayGru> teacher,
                                                                                const PhonemeOptions& options);

  // Without a teacher "loss", CTC's sum over recordings; with one "ctc" and "kl", the second over frames, times the
  // square of the temperature.
  std::vector<TermWeight> LossTerms() const override;
  std::vector<int64_t> Counts(const TensorBatch& batch) const override;
  void Prepare(TensorBatch& batch, const c10::Stream* copies) const override { batch.Load(copies); }
  Losses Forward(const TensorBatch& batch, const PassScale& scale) const override;
  bool Evaluates(const TensorBatch& batch) const override { return batch.rows() > 0; }
  absl::Status Evaluate(const TensorBatch& batch, Metrics& metrics) const override;
  // Beside the losses "phoneme_error_rate" and, of each day, "phoneme_error_rate.SESSION"; of diphones these are of the
  // phonemes that they spell (InPhonemes), and "diphone_error_rate" is their own.
  absl::StatusOr<MetricValues> Summarize(const MetricValues& means, const Predictions& predictions) const override;
  NamedBytes HeldMemory(c10::DeviceType type) const override { return MemoryOfTeacher(teacher_.get(), type); }
  absl::Status SaveModel(const torch::nn::Module& module, const std::string& folder) const override;
  absl::StatusOr<Fields> Fingerprint() const override;

  // Told of what was spelled, in phonemes, by sample, before metrics are made of it; on rank 0. An error ends the
  // evaluation.
  using Listener = std::function<absl::Status(const std::map<int64_t, SpelledTrial>& trials)>;
  void SetListener(Listener listener) { listener_ = std::move(listener); }

 private:
  PhonemeObjective(std::shared_ptr<DayGru> model, std::shared_ptr<DayGru> teacher, const PhonemeOptions& options)
      : model_(std::move(model)), teacher_(std::move(teacher)), options_(options) {}
  Losses LossesOf(const GruCtc::Output& output, const TensorBatch& batch) const;
  torch::Tensor Divergence(const GruCtc::Output& student, const TensorBatch& batch) const;
  std::vector<int64_t> Spell(const FrameScores& scores) const;

  const std::shared_ptr<DayGru> model_, teacher_;
  const PhonemeOptions options_;
  Listener listener_;
};

}  // namespace distill
