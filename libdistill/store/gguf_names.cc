#include "libdistill/store/gguf_names.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"

namespace distill {
namespace {

using Pair = std::pair<absl::string_view, absl::string_view>;  // llama.cpp's name, transformers'

constexpr absl::string_view kArchitectures[] = {"llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"};

constexpr Pair kOuter[] = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

constexpr Pair kOfBlock[] = {{"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
                             {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
                             {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
                             {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
                             {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
                             {"ffn_down", "mlp.down_proj"}};

// Where an architecture has others.
constexpr Pair kOfGemma[] = {{"post_attention_norm", "post_attention_layernorm"},
                             {"ffn_norm", "pre_feedforward_layernorm"},
                             {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Pair kOfPhi[] = {{"attn_qkv", "self_attn.qkv_proj"}, {"ffn_up", "mlp.gate_up_proj"}};

bool IsGemma(absl::string_view architecture) { return architecture == "gemma2" || architecture == "gemma3"; }

absl::Span<const Pair> OwnNames(absl::string_view architecture) {
  if (IsGemma(architecture)) return kOfGemma;
  if (architecture == "phi3") return kOfPhi;
  return {};
}

}  // namespace

absl::Status CheckGgufArchitecture(absl::string_view architecture) {
  if (absl::c_linear_search(kArchitectures, architecture)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "\"general.architecture\": \"", architecture, "\" is not read; read are ", absl::StrJoin(kArchitectures, ", "),
      ": take the model's folder for transformers, or load the file there (from_pretrained with ",
      "gguf_file=NAME), save it with model.save_pretrained(FOLDER), and name that folder"));
}

std::string TransformersName(absl::string_view architecture, const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  if (parts.size() == 2) {
    for (const auto& [here, there] : kOuter) {
      if (parts[0] == here) return absl::StrCat(there, ".", parts[1]);
    }
  }
  if (parts.size() == 4 && parts[0] == "blk") {
    for (const absl::Span<const Pair> names : {OwnNames(architecture), absl::Span<const Pair>(kOfBlock)}) {
      for (const auto& [here, there] : names) {
        if (parts[2] == here) return absl::StrCat("model.layers.", parts[1], ".", there, ".", parts[3]);
      }
    }
  }
  return name;
}

bool HasAlternatingRows(absl::string_view architecture, const std::string& name) {
  return architecture == "llama" && (absl::StrContains(name, ".attn_q.") || absl::StrContains(name, ".attn_k."));
}

bool IsOneAbove(absl::string_view architecture, const std::string& name) {
  return IsGemma(architecture) && absl::EndsWith(name, "norm.weight");
}

}  // namespace distill
