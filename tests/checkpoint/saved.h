// Checkpoints that tests save, and damage.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill::testing {

inline TrainerState StateOf(int64_t step) {
  TrainerState state;
  state.step = step;
  state.updates = step - 1;
  state.skipped_in_a_row = 1;
  state.position = std::string("any\0bytes", 9);
  state.record_sums = {{.name = "loss", .sum = 1.5, .steps = 2}};
  state.loss_sum = 0.1;
  state.samples = 5;
  state.tokens = 6;
  state.random_states = {std::string("a\0b", 3), "c"};
  state.settings = {{"learning_rate", "1e-4"}, {"seed", "42"}};
  return state;
}

inline absl::Status WriteNoTensor(const std::string&, ByteSink) { return absl::OkStatus(); }

// A small checkpoint, with a model file of its own.
inline absl::Status Save(const std::string& output_dir, int64_t step) {
  DISTILL_ASSIGN_OR_RETURN(CheckpointDraft draft, CheckpointDraft::Begin(output_dir, step));
  std::ofstream(JoinPath(draft.folder(), "config.json")) << "{\"step\": " << step << "}";
  const std::vector<float> values = {1.0f, static_cast<float>(step)};
  DISTILL_RETURN_IF_ERROR(draft.WriteTensors({{"weight/a", {.dtype = DType::kFloat32, .shape = {2}, .size_bytes = 8}}},
                                             [&](const std::string&, ByteSink sink) {
                                               return sink({reinterpret_cast<const char*>(values.data()), 8});
                                             }));
  return draft.Commit(StateOf(step));
}

inline void FlipByte(const std::string& path, int64_t offset, int mask = 1) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const char byte = static_cast<char>(file.get() ^ mask);
  file.seekp(offset);
  file.put(byte);
}

}  // namespace distill::testing
