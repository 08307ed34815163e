// Whether libdistill and a peer train alike: the peer's run, repeated from its first weights on its inputs.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "libdistill/run/run.h"

namespace distill {

// `folder` is what the peer of the recipe (`bench/peers/hf_distill_llm.py full`, `hf_distill_bert.py`) wrote with
// `--save FOLDER`, in float32, on as many ranks. Internal: a step's loss differs by more than 1e-4 of the peer's. Every
// rank must call it.
[[nodiscard]] absl::Status CompareWithPeer(RunContext& run, const std::string& recipe, const std::string& folder);

}  // namespace distill
