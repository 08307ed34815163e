#include "libdistill/proto/checkpoint_messages.h"

#include "absl/strings/str_cat.h"
#include "checkpoint.pb.h"

namespace distill {

std::string Serialize(const CheckpointManifest& manifest) {
  proto::CheckpointManifest message;
  message.set_format_version(manifest.format_version);
  message.set_step(manifest.step);
  for (const FileEntry& file : manifest.files) {
    proto::FileEntry& entry = *message.add_files();
    entry.set_name(file.name);
    entry.set_size_bytes(file.size_bytes);
    entry.set_xxh3_high(file.xxh3_high);
    entry.set_xxh3_low(file.xxh3_low);
  }
  message.set_checksum(manifest.checksum);
  return message.SerializeAsString();
}

std::string Serialize(const TrainerState& state) {
  proto::TrainerState message;
  message.set_step(state.step);
  message.set_updates(state.updates);
  message.set_skipped_in_a_row(state.skipped_in_a_row);
  if (state.position.has_value()) message.set_position(*state.position);
  message.set_loss_sum(state.loss_sum);
  message.set_samples(state.samples);
  message.set_tokens(state.tokens);
  for (const std::string& random_state : state.random_states) message.add_random_states(random_state);
  for (const auto& [name, value] : state.settings) {
    proto::Setting& setting = *message.add_settings();
    setting.set_name(name);
    setting.set_value(value);
  }
  for (const int64_t parameter : state.gradient_order) message.add_gradient_order(parameter);
  message.set_loss_scale(state.loss_scale);
  message.set_good_steps(state.good_steps);
  for (const RecordSum& sum : state.record_sums) {
    proto::RecordSum& saved = *message.add_record_sums();
    saved.set_name(sum.name);
    saved.set_sum(sum.sum);
    saved.set_steps(sum.steps);
  }
  message.set_best_metric(state.best_metric);
  message.set_best_step(state.best_step);
  for (const auto& [name, value] : state.best_evaluation) {
    proto::NamedValue& saved = *message.add_best_evaluation();
    saved.set_name(name);
    saved.set_value(value);
  }
  message.set_evaluations_since_best(state.evaluations_since_best);
  message.set_best_checkpoint(state.best_checkpoint);
  message.set_evaluation_is_owed(state.evaluation_is_owed);
  return message.SerializeAsString();
}

absl::StatusOr<CheckpointManifest> ParseCheckpointManifest(const std::string& bytes, const std::string& name) {
  proto::CheckpointManifest message;
  if (!message.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat(name, " is damaged: it is no checkpoint manifest"));
  }
  CheckpointManifest manifest{
      .format_version = message.format_version(), .step = message.step(), .files = {}, .checksum = message.checksum()};
  for (const proto::FileEntry& entry : message.files()) {
    manifest.files.push_back({entry.name(), entry.size_bytes(), entry.xxh3_high(), entry.xxh3_low()});
  }
  return manifest;
}

absl::StatusOr<TrainerState> ParseTrainerState(const std::string& bytes, const std::string& name) {
  proto::TrainerState message;
  if (!message.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat(name, " is damaged: it is no trainer state"));
  }
  TrainerState state;
  state.step = message.step();
  state.updates = message.updates();
  state.skipped_in_a_row = message.skipped_in_a_row();
  if (message.has_position()) state.position = message.position();
  state.epoch = message.epoch();
  state.row = message.row();
  state.data_seed = message.data_seed();
  state.loss_sum = message.loss_sum();
  state.samples = message.samples();
  state.tokens = message.tokens();
  state.random_states.assign(message.random_states().begin(), message.random_states().end());
  for (const proto::Setting& setting : message.settings()) state.settings.emplace_back(setting.name(), setting.value());
  state.gradient_order.assign(message.gradient_order().begin(), message.gradient_order().end());
  state.loss_scale = message.loss_scale();
  state.good_steps = message.good_steps();
  for (const proto::RecordSum& sum : message.record_sums()) {
    state.record_sums.push_back({sum.name(), sum.sum(), sum.steps()});
  }
  state.best_metric = message.best_metric();
  state.best_step = message.best_step();
  for (const proto::NamedValue& value : message.best_evaluation()) {
    state.best_evaluation.emplace_back(value.name(), value.value());
  }
  state.evaluations_since_best = message.evaluations_since_best();
  state.best_checkpoint = message.best_checkpoint();
  state.evaluation_is_owed = message.evaluation_is_owed();
  return state;
}

}  // namespace distill
