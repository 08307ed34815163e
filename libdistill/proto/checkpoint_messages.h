// The messages of checkpoint.proto as plain structs, and their bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

// XXH3 of 128 bits.
struct PartHash {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const PartHash&) const = default;
};

struct FileEntry {
  std::string name;
  uint64_t size_bytes = 0;
  std::vector<PartHash> parts;  // one at least
};

struct CheckpointManifest {
  uint32_t format_version = 0;
  int64_t step = 0;
  std::vector<FileEntry> files;
  uint64_t part_bytes = 0;  // of each part of a file but the last; in version 1 files have one part
  std::string checksum;     // of the bytes before it, the last field; empty: none
  std::string folder = {};  // of the files, beside the manifest; empty: they are beside it themselves
};

// Of the steps since the last record of the log: a term's sum, and in how many steps it came.
struct RecordSum {
  std::string name;
  double sum = 0;
  int64_t steps = 0;
};

// What training resumes from, besides tensors.
struct TrainerState {
  int64_t step = 0;                     // steps done
  int64_t updates = 0;                  // of them, those that changed the weights
  int64_t skipped_in_a_row = 0;         // steps at the end that did not
  std::optional<std::string> position;  // of the task (Task::Position); none in files from before it was bytes
  int64_t epoch = 0;                    // in those: a DataSharder's
  int64_t row = 0;
  uint64_t data_seed = 0;
  double loss_sum = 0;  // of the mean losses of all steps
  int64_t samples = 0;
  int64_t tokens = 0;
  std::vector<std::string> random_states;  // torch's, by rank
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<int64_t> gradient_order;  // parameters by index, as their gradients came; empty: not known yet
  double loss_scale = 0;                // of float16; 0: none
  int64_t good_steps = 0;               // since it changed
  std::vector<RecordSum> record_sums;
  std::string best_metric;  // what is compared, and how; empty: nothing is, and the next ones are empty
  int64_t best_step = 0;    // 0: none yet
  std::vector<std::pair<std::string, double>> best_evaluation;
  int64_t evaluations_since_best = 0;
  std::string best_checkpoint;      // folder of the best evaluation that was saved; empty: none
  bool evaluation_is_owed = false;  // one was due after this step, and a notice to end came first
};

std::string Serialize(const CheckpointManifest& manifest);
std::string Serialize(const TrainerState& state);
// DataLoss: bytes that are no such message, or a file with another number of parts than its size has. `name` stands for
// the file.
[[nodiscard]] absl::StatusOr<CheckpointManifest> ParseCheckpointManifest(const std::string& bytes,
                                                                         const std::string& name);
[[nodiscard]] absl::StatusOr<TrainerState> ParseTrainerState(const std::string& bytes, const std::string& name);

}  // namespace distill
