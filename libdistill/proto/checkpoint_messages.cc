#include "libdistill/proto/checkpoint_messages.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "checkpoint.pb.h"

namespace distill {
namespace {

bool HasItsParts(const FileEntry& file, uint64_t part_bytes) {
  const uint64_t last = file.size_bytes == 0 ? 0 : file.size_bytes - 1;
  return part_bytes > 0 && file.parts.size() == last / part_bytes + 1;
}

}  // namespace

std::string Serialize(const CheckpointManifest& manifest) {
  proto::CheckpointManifest message;
  message.set_format_version(manifest.format_version);
  message.set_step(manifest.step);
  for (const FileEntry& file : manifest.files) {
    proto::FileEntry& entry = *message.add_files();
    entry.set_name(file.name);
    entry.set_size_bytes(file.size_bytes);
    if (manifest.format_version == 1) {
      entry.set_xxh3_high(file.parts[0].high);
      entry.set_xxh3_low(file.parts[0].low);
      continue;
    }
    for (const PartHash& part : file.parts) {
      entry.add_parts(part.high);
      entry.add_parts(part.low);
    }
  }
  if (manifest.format_version != 1) message.set_part_bytes(manifest.part_bytes);
  message.set_folder(manifest.folder);
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
  const bool has_parts = message.format_version() != 1;
  CheckpointManifest manifest{.format_version = message.format_version(),
                              .step = message.step(),
                              .files = {},
                              .part_bytes = has_parts ? message.part_bytes() : std::numeric_limits<uint64_t>::max(),
                              .checksum = message.checksum(),
                              .folder = message.folder()};
  for (const proto::FileEntry& entry : message.files()) {
    FileEntry& file = manifest.files.emplace_back(FileEntry{entry.name(), entry.size_bytes(), {}});
    if (!has_parts) file.parts.push_back({entry.xxh3_high(), entry.xxh3_low()});
    for (int i = 0; has_parts && i + 1 < entry.parts_size(); i += 2) {
      file.parts.push_back({entry.parts(i), entry.parts(i + 1)});
    }
    if (!HasItsParts(file, manifest.part_bytes)) {
      return absl::DataLossError(absl::StrCat(name, " is damaged: ", file.name, " has ", file.parts.size(), " parts"));
    }
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
