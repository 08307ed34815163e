// Where the Hugging Face hub is, who asks, and where what it gave is kept: the environment variables of
// huggingface_hub, with their meaning there.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace distill {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT; no slash at the end
  std::string token;                                // HF_TOKEN, or the file that `hf auth login` writes; empty: none
  bool is_offline = false;                          // HF_HUB_OFFLINE: nothing is asked for, the cache alone counts
  std::string cache_folder;                         // HF_HUB_CACHE, or HF_HOME/hub, or ~/.cache/huggingface/hub
};

// InvalidArgument: an endpoint that is no URL.
[[nodiscard]] absl::StatusOr<HubSettings> ReadHubSettings();

}  // namespace distill
