#include "libdistill/store/gguf_names.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace distill {
namespace {

constexpr absl::string_view kArchitectures[] = {"llama", "qwen2", "qwen3"};

constexpr std::pair<absl::string_view, absl::string_view> kOuter[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

constexpr std::pair<absl::string_view, absl::string_view> kOfBlock[] = {
    {"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};

}  // namespace

absl::Status CheckGgufArchitecture(absl::string_view architecture) {
  if (absl::c_linear_search(kArchitectures, architecture)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("\"general.architecture\": \"", architecture,
                                                 "\" is not read; read are ", absl::StrJoin(kArchitectures, ", "),
                                                 ": take the model's folder for transformers"));
}

std::string TransformersName(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  if (parts.size() == 2) {
    for (const auto& [here, there] : kOuter) {
      if (parts[0] == here) return absl::StrCat(there, ".", parts[1]);
    }
  }
  if (parts.size() == 4 && parts[0] == "blk") {
    for (const auto& [here, there] : kOfBlock) {
      if (parts[2] == here) return absl::StrCat("model.layers.", parts[1], ".", there, ".", parts[3]);
    }
  }
  return name;
}

bool HasAlternatingRows(absl::string_view architecture, const std::string& name) {
  return architecture == "llama" && (absl::StrContains(name, ".attn_q.") || absl::StrContains(name, ".attn_k."));
}

}  // namespace distill
