#include "libdistill/nn/config_fields.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_split.h"

namespace distill {
namespace {

constexpr RefusedFields kRefusedInDecoders[] = {
    // Scales, caps and norms of other families.
    {"\"silu\"", "hidden_act"},
    {"1",
     "logit_scale logits_scaling logits_scale embedding_multiplier embedding_scale residual_multiplier "
     "residual_scale scale_emb mup_width_scale lm_head_multiplier key_multiplier"},
    {"",
     "attention_multiplier attn_scale scale_depth dim_model_base query_pre_attn_scalar final_logit_softcapping "
     "attn_logit_softcapping floor_scale clip_qkv"},
    {"false", "lm_head_bias"},
    {"false", "attn_temperature_tuning qk_norm use_qk_norm qk_layernorm scale_embedding"},
    // Positions.
    {"1", "partial_rotary_factor rotary_pct"},
    {"false", "rope_interleave rope_interleaved alibi use_mrope"},
    {"", "rope_local_base_freq no_rope_layer_interval"},
    {"[]", "no_rope_layers"},
    {"\"rope\"", "position_embedding_type"},
    // Attention.
    {"false", "use_sliding_window is_encoder_decoder add_cross_attention use_bidirectional_attention"},
    {"",
     "sliding_window attention_chunk_size dual_chunk_attention_config attention_sink_size cross_attention_layers "
     "kv_lora_rank "
     "q_lora_rank"},
    {"true", "is_causal"},
    {"0", "num_kv_shared_layers"},
    {"{}", "pruned_heads"},
    // Blocks.
    {"false", "parallel_attn use_parallel_residual tie_encoder_decoder"},
    {"0",
     "num_experts num_local_experts n_routed_experts hidden_dropout hidden_dropout_prob resid_pdrop embd_pdrop "
     "layerdrop"},
    // Weights and how they are multiplied.
    {"", "vision_config audio_config text_config"},
    // Layers that differ, and weights in another file.
    {"", "per_layer_config transformers_weights"},
};

constexpr RefusedFields kRefusedInEncoders[] = {
    {"\"gelu\"", "hidden_act activation"},
    {"\"absolute\"", "position_embedding_type"},
    {"false", "sinusoidal_pos_embds is_decoder is_encoder_decoder add_cross_attention"},
    {"true", "tie_word_embeddings tie_weights_"},
    {"{}", "pruned_heads"},
    {"", "quantization_config compression_config per_layer_config transformers_weights"},
};

constexpr char kHarmlessInDecoders[] =
    "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim "
    "rms_norm_eps attention_dropout tie_word_embeddings attention_bias mlp_bias rope_theta rope_scaling "
    "rope_parameters layer_types max_position_embeddings original_max_position_embeddings is_decoder "
    "max_window_layers output_router_logits router_aux_loss_coef quantization_config "
    "quantization compression_config";

constexpr char kHarmlessInEncoders[] =
    "vocab_size hidden_size dim intermediate_size hidden_dim num_hidden_layers n_layers num_attention_heads "
    "n_heads max_position_embeddings type_vocab_size layer_norm_eps hidden_dropout_prob "
    "attention_probs_dropout_prob dropout attention_dropout qa_dropout seq_classif_dropout output_past "
    "gradient_checkpointing";

}  // namespace

const FamilyFields kDecoderFields = {kRefusedInDecoders, kHarmlessInDecoders};
const FamilyFields kEncoderFields = {kRefusedInEncoders, kHarmlessInEncoders};

bool IsAmong(absl::string_view name, absl::string_view names) {
  const std::vector<absl::string_view> all = absl::StrSplit(names, ' ');
  return absl::c_linear_search(all, name);
}

bool IsBookkeepingField(absl::string_view name) {
  static constexpr absl::string_view kBookkeeping[] = {
      // Honoured in every family.
      "model_type", "initializer_range", "pad_token_id",
      // How the first training cut its products: transformers computes nothing with it any more.
      "pretraining_tp",
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
  return absl::c_linear_search(kBookkeeping, name);
}

}  // namespace distill
