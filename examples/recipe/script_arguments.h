// Names of transformers' example scripts (run_qa.py, run_mlm.py, run_classification.py) that are no options of the
// recipes that take these scripts' place: accepted where their value asks for what happens anyway, refused otherwise.
// And names of what the models of all recipes but the first one do not have.
#pragma once

namespace distill {

template <class V>
void DescribeScriptModels(V& v) {
  v.Accept("config_name", {""}, "the model's folder has its config.json");
  v.Accept("tokenizer_name", {""}, "the model's folder has its tokenizer");
  v.Accept("use_fast_tokenizer", {"true"}, "there is one tokenizer");
  v.Accept("trust_remote_code", {"false"}, "models are read by this library; no code of theirs runs");
  v.Refuse({"token", "use_auth_token"}, "the token comes from HF_TOKEN, or from `hf auth login`");
}

template <class V>
void DescribeScriptPublishing(V& v) {
  constexpr const char* kPublish =
      "this program publishes nothing: send output_dir to the hub afterwards, by distill_llm --publish OUTPUT_DIR "
      "--hub_location ORG/NAME";
  v.Accept("push_to_hub", {"false"}, kPublish);
  v.Refuse({"hub_model_id", "push_to_hub_model_id", "hub_private_repo", "hub_revision", "hub_strategy"}, kPublish);
  v.Refuse({"hub_token", "push_to_hub_token"}, "the token comes from HF_TOKEN, or from `hf auth login`");
}

// For recipes whose models have no adapters.
template <class V>
void DescribeNoAdapters(V& v) {
  v.Refuse({"use_peft", "lora_r", "lora_alpha", "lora_dropout", "lora_target_modules"},
           "adapters are not supported: all weights are trained");
}

template <class V>
void DescribeScriptArguments(V& v) {
  DescribeScriptModels(v);
  DescribeScriptPublishing(v);
}

}  // namespace distill
