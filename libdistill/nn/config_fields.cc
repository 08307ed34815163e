#include "libdistill/nn/config_fields.h"

#include <algorithm>
#include <iterator>

namespace distill {

namespace {

std::vector<RefusedField> RefusedInDecoders() {
  return {
      // Scales, caps and norms of other families.
      {"hidden_act", "\"silu\""},
      {"logit_scale", "1"},
      {"logits_scaling", "1"},
      {"logits_scale", "1"},
      {"embedding_multiplier", "1"},
      {"embedding_scale", "1"},
      {"attention_multiplier", ""},
      {"attn_scale", ""},
      {"residual_multiplier", "1"},
      {"residual_scale", "1"},
      {"scale_depth", ""},
      {"scale_emb", "1"},
      {"dim_model_base", ""},
      {"mup_width_scale", "1"},
      {"lm_head_multiplier", "1"},
      {"key_multiplier", "1"},
      {"query_pre_attn_scalar", ""},
      {"final_logit_softcapping", ""},
      {"attn_logit_softcapping", ""},
      {"attn_temperature_tuning", "false"},
      {"floor_scale", ""},
      {"qk_norm", "false"},
      {"use_qk_norm", "false"},
      {"qk_layernorm", "false"},
      {"clip_qkv", ""},
      {"scale_embedding", "false"},
      // Positions.
      {"partial_rotary_factor", "1"},
      {"rotary_pct", "1"},
      {"rope_interleave", "false"},
      {"rope_interleaved", "false"},
      {"rope_local_base_freq", ""},
      {"alibi", "false"},
      {"use_mrope", "false"},
      {"no_rope_layers", "[]"},
      {"no_rope_layer_interval", ""},
      {"position_embedding_type", "\"rope\""},
      // Attention.
      {"use_sliding_window", "false"},
      {"attention_chunk_size", ""},
      {"dual_chunk_attention_config", ""},
      {"attention_sink_size", ""},
      {"is_causal", "true"},
      {"is_encoder_decoder", "false"},
      {"add_cross_attention", "false"},
      {"use_bidirectional_attention", "false"},
      {"cross_attention_layers", ""},
      {"kv_lora_rank", ""},
      {"q_lora_rank", ""},
      {"num_kv_shared_layers", "0"},
      {"pruned_heads", "{}"},
      // Blocks.
      {"parallel_attn", "false"},
      {"use_parallel_residual", "false"},
      {"num_experts", "0"},
      {"num_local_experts", "0"},
      {"n_routed_experts", "0"},
      {"hidden_dropout", "0"},
      {"hidden_dropout_prob", "0"},
      {"resid_pdrop", "0"},
      {"embd_pdrop", "0"},
      {"layerdrop", "0"},
      {"tie_encoder_decoder", "false"},
      // Weights and how they are multiplied.
      {"pretraining_tp", "1"},
      {"quantization_config", ""},
      {"quantization", ""},
      {"compression_config", ""},
      {"vision_config", ""},
      {"audio_config", ""},
      {"text_config", ""},
      // Layers that differ, and weights in another file.
      {"per_layer_config", ""},
      {"transformers_weights", ""},
  };
}

std::vector<RefusedField> RefusedInEncoders() {
  return {
      {"hidden_act", "\"gelu\""},
      {"activation", "\"gelu\""},
      {"position_embedding_type", "\"absolute\""},
      {"sinusoidal_pos_embds", "false"},
      {"is_decoder", "false"},
      {"is_encoder_decoder", "false"},
      {"add_cross_attention", "false"},
      {"tie_word_embeddings", "true"},
      {"tie_weights_", "true"},
      {"pruned_heads", "{}"},
      {"quantization_config", ""},
      {"compression_config", ""},
      {"per_layer_config", ""},
      {"transformers_weights", ""},
  };
}

}  // namespace

const FamilyFields& DecoderFields() {
  static const FamilyFields fields = {RefusedInDecoders(),
                                      {"vocab_size",
                                       "hidden_size",
                                       "intermediate_size",
                                       "num_hidden_layers",
                                       "num_attention_heads",
                                       "num_key_value_heads",
                                       "head_dim",
                                       "rms_norm_eps",
                                       "attention_dropout",
                                       "tie_word_embeddings",
                                       "attention_bias",
                                       "mlp_bias",
                                       "rope_theta",
                                       "rope_scaling",
                                       "rope_parameters",
                                       "layer_types",
                                       "sliding_window",
                                       "max_position_embeddings",
                                       "original_max_position_embeddings",
                                       "is_decoder",
                                       "max_window_layers"}};
  return fields;
}

const FamilyFields& EncoderFields() {
  static const FamilyFields fields = {RefusedInEncoders(),
                                      {"vocab_size",
                                       "hidden_size",
                                       "dim",
                                       "intermediate_size",
                                       "hidden_dim",
                                       "num_hidden_layers",
                                       "n_layers",
                                       "num_attention_heads",
                                       "n_heads",
                                       "max_position_embeddings",
                                       "type_vocab_size",
                                       "layer_norm_eps",
                                       "hidden_dropout_prob",
                                       "attention_probs_dropout_prob",
                                       "dropout",
                                       "attention_dropout",
                                       "qa_dropout",
                                       "seq_classif_dropout",
                                       "output_past",
                                       "gradient_checkpointing"}};
  return fields;
}

bool IsBookkeepingField(absl::string_view name) {
  static constexpr absl::string_view kBookkeeping[] = {
      // Honoured in every family.
      "model_type", "initializer_range", "pad_token_id",
      // The loader chooses the type; the saver writes it.
      "torch_dtype", "dtype",
      // Bookkeeping, generation defaults, and what matters only together with a refused field.
      "architectures", "transformers_version", "bos_token_id", "eos_token_id", "unk_token_id", "sep_token_id",
      "decoder_start_token_id", "use_cache", "_name_or_path", "name_or_path", "auto_map", "attn_implementation",
      "_attn_implementation", "_attn_implementation_autoset", "_flash_attn_2_enabled", "torchscript", "return_dict",
      "output_attentions", "output_hidden_states", "id2label", "label2id", "num_labels", "problem_type",
      "finetuning_task", "task_specific_params", "tokenizer_class", "prefix", "chunk_size_feed_forward",
      "cross_attention_hidden_size", "classifier_dropout", "gradient_checkpointing", "max_length", "min_length",
      "max_new_tokens", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty",
      "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
      "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "output_scores",
      "return_dict_in_generate", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values",
      "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens", "use_bfloat16", "tf_legacy_loss",
      "unsloth_fixed", "unsloth_version"};
  return std::find(std::begin(kBookkeeping), std::end(kBookkeeping), name) != std::end(kBookkeeping);
}

}  // namespace distill
