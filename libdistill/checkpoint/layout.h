// Names inside OUTPUT_DIR (docs/formats.md, "Checkpoints").
#pragma once

#include <cstdint>

namespace distill {

constexpr uint32_t kCheckpointFormatVersion = 1;
constexpr char kManifestFile[] = "manifest.pb";
constexpr char kStateFile[] = "trainer_state.pb";
constexpr char kTensorsFile[] = "optimizer.safetensors";
constexpr char kCheckpointPrefix[] = "checkpoint-";
constexpr char kDraftSuffix[] = ".tmp";     // of a hidden folder: being written
constexpr char kSetAsideSuffix[] = ".old";  // of a hidden folder: a whole checkpoint that is being replaced

}  // namespace distill
