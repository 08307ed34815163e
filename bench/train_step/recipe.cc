#include "bench/train_step/recipe.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/distilbert.h"
#include "libdistill/core/random.h"
#include "libdistill/loss/loss_memory.h"

namespace distill {
namespace {

constexpr int64_t kLlmVocabulary = 151936;
struct LlmShape {
  int64_t hidden, layers, heads, key_value_heads, intermediate;
  bool has_own_head = false;
};
// bench/peers/hf_distill_llm.py, which has the same families.
constexpr LlmShape kLlmTeacher = {512, 8, 8, 2, 2816};
constexpr LlmShape kLlmStudent = {256, 4, 4, 2, 1408};
// Qwen2.5's of 7 and of 1.5 billion parameters, the teacher's vocabulary cut to the student's.
constexpr LlmShape kLargeTeacher = {3584, 28, 28, 4, 18944, /*has_own_head=*/true};
constexpr LlmShape kLargeStudent = {1536, 28, 12, 2, 8960};

struct LlmFamily {
  absl::string_view recipe;
  absl::string_view fields;  // of config.json
  LlmShape teacher = kLlmTeacher, student = kLlmStudent;
  int64_t rows = 2, length = 512;
};
constexpr char kQwen2[] = R"("model_type": "qwen2", "hidden_act": "silu")";
constexpr LlmFamily kLlmFamilies[] = {
    {"llm", kQwen2},
    {"llm_qwen3", R"("model_type": "qwen3", "head_dim": 64, "hidden_act": "silu")"},
    {"llm_gemma2", R"("model_type": "gemma2", "head_dim": 64, "query_pre_attn_scalar": 64, "pad_token_id": null)"},
    {"llm_7b", kQwen2, kLargeTeacher, kLargeStudent, 4, 1024},
};

// bench/peers/hf_distill_bert.py: the families' own sizes are its.
constexpr const char* kBertTeacher =
    R"({"model_type": "bert", "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, )"
    R"("num_attention_heads": 12, "intermediate_size": 3072})";
constexpr int32_t kMask = 103;

absl::StatusOr<std::shared_ptr<LanguageModel>> MakeDecoder(const LlmFamily& family, const LlmShape& shape,
                                                           torch::Dtype dtype, torch::Device device) {
  const std::string json = absl::StrCat(
      "{", family.fields, R"(, "vocab_size": )", kLlmVocabulary, R"(, "hidden_size": )", shape.hidden,
      R"(, "num_hidden_layers": )", shape.layers, R"(, "num_attention_heads": )", shape.heads,
      R"(, "num_key_value_heads": )", shape.key_value_heads, R"(, "intermediate_size": )", shape.intermediate,
      R"(, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 4096, )",
      R"("tie_word_embeddings": )", shape.has_own_head ? "false" : "true", R"(, "initializer_range": 0.02})");
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ParseDecoderConfig(json, "bench"));
  if (device.is_cpu()) return std::make_shared<Decoder>(config);
  return DrawnDecoder(config, dtype, device);
}

absl::StatusOr<std::shared_ptr<LanguageModel>> MakeEncoder(const std::string& json) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ParseEncoderConfig(json, "bench"));
  return std::make_shared<Encoder>(config);
}

// Weights of a row for each token or position are looked up, not multiplied; the head is.
bool IsMultiplied(const std::string& name, const torch::Tensor& weight) {
  return weight.dim() == 2 && !absl::StrContains(name, "position_embeddings") &&
         !absl::StrContains(name, "token_type_embeddings");
}

double CountMultiplied(const torch::nn::Module& module) {
  double count = 0;
  for (const auto& item : module.named_parameters()) {
    if (IsMultiplied(item.key(), item.value())) count += static_cast<double>(item.value().numel());
  }
  return count;
}

TokenBatch WholeRows(const std::vector<int64_t>& input_ids, int64_t rows, int64_t length) {
  TokenBatch batch;
  batch.rows = rows;
  batch.length = length;
  batch.input_ids.assign(input_ids.begin(), input_ids.end());
  batch.document_starts.assign(static_cast<size_t>(rows), {0, length});
  return batch;
}

TokenBatch NextTokens(const std::vector<int64_t>& input_ids, int64_t rows, int64_t length) {
  TokenBatch batch = WholeRows(input_ids, rows, length);
  for (int64_t i = 0; i < rows * length; ++i) {
    batch.labels.push_back((i + 1) % length != 0 ? batch.input_ids[i + 1] : kIgnoreLabel);
  }
  return batch;
}

absl::Status MakeLlm(const LlmFamily& family, const std::string& folder, torch::Dtype dtype, torch::Device device,
                     BenchRecipe& recipe) {
  if (folder.empty()) {
    DISTILL_ASSIGN_OR_RETURN(recipe.teacher, MakeDecoder(family, family.teacher, dtype, device));
    DISTILL_ASSIGN_OR_RETURN(recipe.student, MakeDecoder(family, family.student, torch::kFloat32, device));
  } else {
    DISTILL_ASSIGN_OR_RETURN(recipe.teacher, LoadDecoder(folder + "/teacher"));
    DISTILL_ASSIGN_OR_RETURN(recipe.student, LoadDecoder(folder + "/student"));
  }
  DISTILL_ASSIGN_OR_RETURN(const auto objective, LogitDistillation::CreateLive(recipe.teacher, recipe.student,
                                                                               {.temperature = 2, .alpha = 0.5}));
  recipe.loss = [objective](const TokenBatch& batch) { return objective->Forward(batch, {}).Find("loss")->sum; };
  recipe.loss_count = [](const TokenBatch& batch) { return batch.num_loss_tokens(); };
  recipe.losses_are_final = objective->losses_are_final();
  recipe.learning_rate = 2e-5;
  const int64_t rows = recipe.rows = family.rows, length = recipe.length = family.length;
  recipe.batch_of = [rows, length](const std::vector<int64_t>& ids, const std::vector<int64_t>&) {
    return NextTokens(ids, rows, length);
  };
  recipe.random_batch = [rows, length](int rank, int64_t step) {
    Random random(7 + static_cast<uint64_t>(step), rank);
    std::vector<int64_t> ids(static_cast<size_t>(rows * length));
    for (int64_t& id : ids) id = static_cast<int64_t>(random.Below(150000));
    return NextTokens(ids, rows, length);
  };
  // Each token's query meets half the sequence.
  const auto attention = [length](const LlmShape& shape) {
    return 2.0 * static_cast<double>(shape.layers * shape.hidden * length);
  };
  const auto shape_of = [](const LlmShape& shape) -> AttentionSizes {
    return {shape.layers, shape.heads, shape.hidden / shape.heads, /*is_causal=*/true};
  };
  recipe.teacher_attention = shape_of(family.teacher);
  recipe.student_attention = shape_of(family.student);
  recipe.flops_per_token = 3 * attention(family.student) + attention(family.teacher);
  return absl::OkStatus();
}

absl::Status MakeDistilBert(const std::string& folder, BenchRecipe& recipe) {
  if (folder.empty()) {
    DISTILL_ASSIGN_OR_RETURN(recipe.teacher, MakeEncoder(kBertTeacher));
    DISTILL_ASSIGN_OR_RETURN(recipe.student, MakeEncoder(kDistilBert));
  } else {
    DISTILL_ASSIGN_OR_RETURN(recipe.teacher, LoadEncoder(folder + "/teacher"));
    DISTILL_ASSIGN_OR_RETURN(recipe.student, LoadEncoder(folder + "/student"));
  }
  DISTILL_ASSIGN_OR_RETURN(const auto objective,
                           MaskedDistillation::Create(LiveTeacher(recipe.teacher), recipe.student,
                                                      {.temperature = 3, .kl_weight = 0.5, .mlm_weight = 2}));
  recipe.loss = [objective](const TokenBatch& batch) {  // as the peer's ranks: a mean over a batch's own labels
    const auto labels = static_cast<double>(batch.num_loss_tokens());
    const double tokens_per_label = labels > 0 ? static_cast<double>(batch.num_tokens()) / labels : 0;
    return objective->Forward(batch, {.factors = {0.5, 2 * tokens_per_label, 1}}).total;
  };
  recipe.loss_count = [](const TokenBatch& batch) { return batch.num_tokens(); };
  recipe.learning_rate = 5e-4;
  recipe.rows = 8;
  recipe.length = 128;
  recipe.batch_of = [](const std::vector<int64_t>& ids, const std::vector<int64_t>& labels) {
    TokenBatch batch = WholeRows(ids, 8, 128);
    batch.labels.assign(labels.begin(), labels.end());
    return batch;
  };
  recipe.random_batch = [](int rank, int64_t step) {
    Random random(7 + static_cast<uint64_t>(step), rank);
    std::vector<int64_t> ids(8 * 128);
    for (int64_t& id : ids) id = 1000 + static_cast<int64_t>(random.Below(29000));
    TokenBatch batch = WholeRows(ids, 8, 128);
    for (int32_t& id : batch.input_ids) {
      const bool is_masked = random.Below(100) < 15;
      batch.labels.push_back(is_masked ? id : kIgnoreLabel);
      if (is_masked) id = kMask;
    }
    return batch;
  };
  recipe.teacher_attention = {12, 12, 64, /*is_causal=*/false};
  recipe.student_attention = {6, 12, 64, /*is_causal=*/false};
  // 4 FLOPs a layer, state and key; 6 layers of the student, forward and backward, and the teacher's 12.
  recipe.flops_per_token = 4.0 * (3 * 6 + 12) * 768 * 128;
  return absl::OkStatus();
}

// The second call's: the first has to make room.
template <typename Call>
double TimeCall(Call&& call) {
  call();
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double TimeProduct(const torch::Tensor& a, const torch::Tensor& b) {
  return TimeCall([&] { torch::mm(a, b); });
}

// Of one weight [out, in] and `tokens`: the forward product, and with gradients the two of the backward pass.
double TimeWeight(int64_t out, int64_t in, int64_t tokens, bool with_gradients, torch::Dtype dtype) {
  const torch::Tensor weight = torch::randn({out, in}).to(dtype), x = torch::randn({tokens, in}).to(dtype);
  double seconds = TimeProduct(x, weight.t());
  if (!with_gradients) return seconds;
  const torch::Tensor gradient = torch::randn({tokens, out}).to(dtype);
  seconds += TimeProduct(gradient, weight) + TimeProduct(gradient.t(), x);
  return seconds;
}

// Of a head [out, in], in the loss's chunks, and its gradient in the loss's slices.
double TimeHead(int64_t out, int64_t in, int64_t tokens, int64_t chunk, bool with_gradients, torch::Dtype dtype) {
  const torch::Tensor weight = torch::randn({out, in}).to(dtype), x = torch::randn({chunk, in}).to(dtype);
  double seconds = TimeProduct(x, weight.t());
  if (with_gradients) {
    const torch::Tensor gradient = torch::randn({chunk, out}).to(dtype);
    const bool is_sliced = dtype != torch::kFloat32;  // what has to be widened
    const int64_t rows = is_sliced ? std::min(out, SliceRows(in, weight.element_size())) : out;
    seconds += TimeProduct(gradient, weight) +
               TimeProduct(gradient.narrow(1, 0, rows).t(), x) * static_cast<double>(out) / static_cast<double>(rows);
  }
  return seconds * static_cast<double>(tokens) / static_cast<double>(chunk);
}

// The products of queries with keys and of probabilities with values, of which causal attention needs half; each has
// two in the backward pass.
double TimeAttention(const BenchRecipe& recipe, const AttentionSizes& shape, bool with_gradients, torch::Dtype dtype) {
  const torch::Tensor query = torch::randn({recipe.rows * shape.heads, recipe.length, shape.head_size}).to(dtype);
  const torch::Tensor keys = query.transpose(1, 2), products = torch::bmm(query, keys);
  const double seconds = TimeCall([&] { torch::bmm(query, keys); }) + TimeCall([&] { torch::bmm(products, query); });
  return static_cast<double>(shape.layers) * seconds * (shape.is_causal ? 0.5 : 1) * (with_gradients ? 3 : 1);
}

// One pass over both models' logits, in the loss's chunks.
double TimePass(int64_t vocabulary, int64_t tokens, int64_t chunk, torch::Dtype dtype) {
  torch::Tensor ours = torch::randn({chunk, vocabulary}).to(dtype);
  const torch::Tensor teachers = torch::randn_like(ours);
  return TimeCall([&] { ours.sub_(teachers); }) * static_cast<double>(tokens) / static_cast<double>(chunk);
}

}  // namespace

absl::StatusOr<BenchRecipe> MakeRecipe(const std::string& name, const std::string& folder, torch::Dtype dtype,
                                       torch::Device device) {
  BenchRecipe recipe;
  const auto family = std::find_if(std::begin(kLlmFamilies), std::end(kLlmFamilies),
                                   [&](const LlmFamily& f) { return f.recipe == name; });
  const bool is_llm = family != std::end(kLlmFamilies);
  DISTILL_RETURN_IF_ERROR(is_llm ? MakeLlm(*family, folder, dtype, device, recipe) : MakeDistilBert(folder, recipe));
  recipe.flops_per_token += 6 * CountMultiplied(*recipe.student) + 2 * CountMultiplied(*recipe.teacher);
  if (is_llm && family->teacher.has_own_head) {  // its embedding is looked up, and no head
    recipe.flops_per_token -= 2.0 * static_cast<double>(kLlmVocabulary * family->teacher.hidden);
  }
  recipe.teacher->to(device, dtype);
  recipe.student->to(device);
  return recipe;
}

double ProductSeconds(const BenchRecipe& recipe, torch::Dtype dtype) {
  const torch::NoGradGuard no_grad;
  const int64_t tokens = recipe.rows * recipe.length;
  const torch::Tensor head = recipe.student->head_weight(), teachers_head = recipe.teacher->head_weight();
  const int64_t chunk = ChunkTokens({.tokens = tokens,
                                     .chunk_tokens = DistillationOptions().chunk_tokens,
                                     .vocabulary = head.size(0),
                                     .student_hidden = head.size(1),
                                     .teacher_hidden = teachers_head.size(1),
                                     .element_bytes = static_cast<int64_t>(torch::elementSize(dtype))});
  std::map<std::pair<int64_t, int64_t>, double> seconds[2];  // of the teacher and the student, by shape
  double total = TimePass(head.size(0), tokens, chunk, dtype);
  for (const bool is_student : {false, true}) {
    const LanguageModel& model = is_student ? *recipe.student : *recipe.teacher;
    total += TimeAttention(recipe, is_student ? recipe.student_attention : recipe.teacher_attention, is_student, dtype);
    for (const auto& item : model.named_parameters()) {
      if (!IsMultiplied(item.key(), item.value())) continue;
      const int64_t out = item.value().size(0), in = item.value().size(1);
      double& of_shape = seconds[is_student][{out, in}];
      if (of_shape == 0) {
        of_shape = item.value().is_same(is_student ? head : teachers_head)
                       ? TimeHead(out, in, tokens, chunk, is_student, dtype)
                       : TimeWeight(out, in, tokens, is_student, dtype);
      }
      total += of_shape;
    }
  }
  return total;
}

}  // namespace distill
