// Names inside OUTPUT_DIR (docs/formats.md, "Checkpoints").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/proto/checkpoint_messages.h"

namespace distill {

constexpr uint32_t kCheckpointFormatVersion = 2;
constexpr char kAdviceOnDamage[] = "resume from an older checkpoint, or start anew";
constexpr char kManifestFile[] = "manifest.pb";
constexpr char kStateFile[] = "trainer_state.pb";
constexpr char kTensorsFile[] = "optimizer.safetensors";
constexpr char kCheckpointPrefix[] = "checkpoint-";
constexpr char kDraftSuffix[] = ".tmp";     // of a hidden folder: being written, or being removed
constexpr char kSetAsideSuffix[] = ".old";  // of a hidden folder: a whole checkpoint that is being replaced

// Files by which a reader finds a published model and its shards, in the order in which they come: after all others.
const std::vector<std::string>& ModelEntries();

// Of a save's files, those whose older ones go before any of them comes: its ModelEntries; where it has none, so that
// any file may be the one by which a reader finds it, all.
std::vector<std::string> NamesToHide(const std::vector<std::string>& names);

// Of a folder's name: of checkpoint-N, and of .checkpoint-N.old; none for other names.
struct NamedStep {
  int64_t step = 0;
  bool is_aside = false;  // a crash kept another of the same step from taking its place
};
std::optional<NamedStep> StepOfName(absl::string_view name);

struct FoundCheckpoint {
  NamedStep of;
  std::string folder;
};

// Everything that is called checkpoint-N but drafts, and what was set aside of that name; the newest first.
[[nodiscard]] absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(const std::string& output_dir);

// A file that a manifest of `folder` lists.
std::string PathOfFile(const std::string& folder, const CheckpointManifest& manifest, const std::string& name);

}  // namespace distill
