// Names inside OUTPUT_DIR (docs/formats.md, "Checkpoints").
#pragma once

#include <cstdint>

namespace distill {

constexpr uint32_t kCheckpointFormatVersion = 1;
constexpr char kManifestFile[] = "manifest.pb";
constexpr char kStateFile[] = "trainer_state.pb";
constexpr char kTensorsFile[] = "optimizer.safetensors";
constexpr char kCheckpointPrefix[] = "checkpoint-";

}  // namespace distill
