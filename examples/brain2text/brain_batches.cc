#include "examples/brain2text/brain_batches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "examples/brain2text/recordings.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"

namespace distill {
namespace {

absl::StatusOr<Sample> Augmented(const Sample& sample, const BrainCollation& how, int64_t epoch) {
  DISTILL_ASSIGN_OR_RETURN(const HostTensor features, sample.Find("features", DType::kFloat32));
  DISTILL_ASSIGN_OR_RETURN(const auto targets, sample.Get<int64_t>("targets"));
  NeuralFrames frames = {.bins = features.shape()[0], .features = features.shape()[1]};
  frames.values.assign(features.values<float>().begin(), features.values<float>().end());
  const int64_t least = BinsFor(how.model, std::max<int64_t>(1, FramesToSpell(targets)));
  Augment(*how.augmentation, how.seed, epoch, sample.id, least, frames);
  Sample changed = sample;
  changed.tensors["features"] = HostTensor(std::move(frames.values), {frames.bins, frames.features});
  return changed;
}

}  // namespace

absl::StatusOr<Batch> CollateRecordings(const DealtRows& rows, const BrainCollation& how) {
  std::vector<SampleRow> changed(rows.begin(), rows.end());
  for (SampleRow& row : changed) {
    if (!how.augmentation.has_value() || row.size() != 1) continue;
    DISTILL_ASSIGN_OR_RETURN(row[0], Augmented(row[0], how, rows.epoch));
  }
  DISTILL_ASSIGN_OR_RETURN(Batch batch, StackRows(changed, {{{"features"}, {"targets"}}}));
  if (batch.rows() == 0) {
    batch.counts["kl"] = 0;
    return batch;
  }
  DISTILL_ASSIGN_OR_RETURN(const HostTensor lengths, batch.Find("features_lengths"));
  for (const int64_t bins : lengths.values<int64_t>()) batch.counts["kl"] += FramesOf(how.model, bins);
  return batch;
}

}  // namespace distill
