// A decoder of which a part is trained.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/plan/planned_model.h"
#include "libdistill/shard/module_state.h"

namespace distill {
namespace {

// What a backward pass has to do with.
struct Part {
  int64_t blocks = 0;     // that it comes to: those from the lowest one with a trained parameter on
  int64_t unkept = 0;     // numbers of a token in them that nothing keeps
  int64_t in_groups = 0;  // the same where documents are attended to in groups
  double attended = 0;    // blocks of whose attention there is a gradient
  double inputs = 0;      // elements of matrices through which a gradient goes on
  double gradients = 0;   // of those that have one
};

// The weights of a block in the order in which they are used, by names that some families put together in one matrix.
// Those of one step take the same states.
constexpr const char* kSteps[][4] = {
    {"input_layernorm"},          {"q_proj", "k_proj", "v_proj", "qkv_proj"}, {"o_proj"},
    {"post_attention_layernorm"}, {"gate_proj", "up_proj", "gate_up_proj"},   {"down_proj"}};
enum Step : int64_t { kFirstNorm, kQueries, kOutput, kSecondNorm, kWide, kDown, kSteps_ };
constexpr int64_t kUnknown = -1;

int64_t StepOf(const std::string& name) {
  for (int64_t step = 0; step < kSteps_; ++step) {
    for (const char* weight : kSteps[step]) {
      if (weight != nullptr && absl::StrContains(name, weight)) return step;
    }
  }
  return kUnknown;
}

bool IsOfAdapter(const std::string& name) { return absl::StrContains(name, ".lora_"); }

bool IsEmbedding(const std::string& name) { return absl::StrContains(name, "embed_tokens."); }

struct Block {
  bool is_known = true;                                 // all of its weights are of the steps above
  int64_t first_trained = kSteps_;                      // step
  int64_t inputs[kSteps_] = {}, outputs[kSteps_] = {};  // of each step's matrices, together
  double elements[kSteps_] = {};                        // of matrices
  int64_t narrow = 0;                                   // numbers that adapters have between their two matrices
  double others = 0;                                    // of matrices of no step
  bool is_trained[kSteps_] = {};
};

std::vector<Block> StepsOf(const PlannedModel& model, const std::vector<bool>& is_frozen) {
  std::vector<Block> blocks(model.blocks.size());
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    if (model.block_of[i] < 0) continue;
    const TrainedParameter& parameter = model.parameters[i];
    const bool is_matrix = parameter.tensor.dim() == 2;
    Block& block = blocks[static_cast<size_t>(model.block_of[i])];
    const int64_t step = StepOf(parameter.name);
    if (step == kUnknown) {
      block.is_known = false;
      if (is_matrix) block.others += static_cast<double>(parameter.tensor.numel());
      if (!is_frozen[i]) block.first_trained = kFirstNorm;
      continue;
    }
    if (!is_frozen[i]) {
      block.is_trained[step] = true;
      block.first_trained = std::min(block.first_trained, step);
    }
    if (!is_matrix) continue;
    block.elements[step] += static_cast<double>(parameter.tensor.numel());
    if (IsOfAdapter(parameter.name)) {
      if (absl::StrContains(parameter.name, ".lora_A.")) block.narrow += parameter.tensor.size(0);
      continue;
    }
    block.inputs[step] = parameter.tensor.size(1);
    block.outputs[step] += parameter.tensor.size(0);
  }
  return blocks;
}

// The block that a backward pass comes to whole, since there is a gradient of what it is given.
void AddWhole(const Block& block, Part& part) {
  part.attended += 1;
  part.inputs += block.others;
  for (int64_t step = 0; step < kSteps_; ++step) part.inputs += block.elements[step];
  // Attention keeps its result, which is what the output's matrix takes.
  for (const int64_t step : {kQueries, kWide, kDown}) part.unkept += block.is_trained[step] ? 0 : block.inputs[step];
}

// The lowest one, of which there is a gradient from the first trained weight on.
void AddLowest(const Block& block, Part& part) {
  if (!block.is_known) return AddWhole(block, part);
  const int64_t first = block.first_trained;
  part.attended += first <= kQueries ? 1 : 0;
  for (int64_t step = first + 1; step < kSteps_; ++step) part.inputs += block.elements[step];
  for (const int64_t step : {kQueries, kWide, kDown}) part.unkept += block.is_trained[step] ? 0 : block.inputs[step];
  const int64_t attended = block.inputs[kOutput], state = block.inputs[kQueries];
  if (first > kFirstNorm) part.unkept += state;
  if (first > kQueries) part.unkept += block.outputs[kQueries], part.in_groups += attended;
  if (first > kOutput) part.unkept += attended;
  if (first > kSecondNorm) part.unkept += state;
  if (first > kWide) part.unkept += block.outputs[kWide];
}

Part PartOf(const PlannedModel& model, const std::vector<bool>& is_frozen) {
  Part part;
  bool has_gradient = false;  // what the block is given
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    const TrainedParameter& parameter = model.parameters[i];
    const bool is_embedding = IsEmbedding(parameter.name);
    has_gradient = has_gradient || (is_embedding && !is_frozen[i]);
    if (parameter.tensor.dim() != 2 || (is_embedding && !model.is_tied)) continue;
    const auto elements = static_cast<double>(parameter.tensor.numel());
    if (!is_frozen[i]) part.gradients += elements;
    if (model.block_of[i] < 0) part.inputs += elements;  // the head's
  }
  for (const Block& block : StepsOf(model, is_frozen)) {
    if (!has_gradient && block.first_trained == kSteps_) continue;
    ++part.blocks;
    part.unkept -= block.narrow;
    has_gradient ? AddWhole(block, part) : AddLowest(block, part);
    has_gradient = true;
  }
  return part;
}

// Attention's operations grow with the rows, those of matrices do not.
void CountOperations(PlannedModel& model, const Part& part) {
  const auto forward = model.forward_flops;
  const double matrices = forward(0);
  const auto blocks = static_cast<double>(std::max<size_t>(1, model.blocks.size()));
  const double share = static_cast<double>(part.blocks) / blocks;
  model.backward_flops = [forward, matrices, blocks, part](int64_t length) {
    return 2 * (part.inputs + part.gradients) + 2 * part.attended / blocks * (forward(length) - matrices);
  };
  double of_blocks = 0;
  for (const auto& block : model.blocks) {
    for (const int64_t weight : block) of_blocks += static_cast<double>(weight);
  }
  model.again_flops = [forward, matrices, share, of_blocks](int64_t length) {
    return share * (2 * of_blocks + forward(length) - matrices);
  };
}

// What the module has beside the family's parameters.
void AddAdapters(const Decoder& shapes, PlannedModel& model) {
  std::vector<TrainedParameter> added;
  for (const auto& item : shapes.named_parameters()) {
    if (IsOfAdapter(item.key())) added.push_back({item.key(), item.value(), true, item.value().size(0)});
  }
  double elements = 0;
  const std::vector<int64_t> block_of = distill::BlocksOf(shapes, added);
  for (size_t i = 0; i < added.size(); ++i) {
    model.blocks[static_cast<size_t>(block_of[i])].push_back(added[i].tensor.numel());
    model.block_of.push_back(block_of[i]);
    elements += static_cast<double>(added[i].tensor.numel());
    model.parameters.push_back(std::move(added[i]));
  }
  if (elements == 0) return;
  model.forward_flops = [before = std::move(model.forward_flops), elements](int64_t length) {
    return before(length) + 2 * elements;
  };
}

// At least one is not.
void Freeze(const std::vector<bool>& frozen, PlannedModel& model) {
  std::vector<TrainedParameter> trained;
  std::vector<int64_t> block_of;
  bool trains_table = false;
  model.last_gradient = 0;
  for (size_t i = 0; i < frozen.size(); ++i) {
    TrainedParameter& parameter = model.parameters[i];
    const bool is_head = model.is_tied ? IsEmbedding(parameter.name) : absl::StartsWith(parameter.name, "lm_head.");
    if (is_head) model.trains_head = !frozen[i];
    if (!frozen[i]) {
      trains_table = trains_table || IsEmbedding(parameter.name);
      model.last_gradient = std::max(model.last_gradient, parameter.tensor.numel());
      block_of.push_back(model.block_of[i]);
    }
    (frozen[i] ? model.frozen : trained).push_back(std::move(parameter));
  }
  if (trains_table) model.last_gradient = model.vocabulary * model.hidden;
  model.parameters = std::move(trained);
  model.block_of = std::move(block_of);
}

}  // namespace

PlannedModel PlannedPart(const DecoderConfig& config, const Decoder& shapes) {
  PlannedModel model = Planned(config);
  AddAdapters(shapes, model);
  const auto parameters = shapes.named_parameters();
  std::vector<bool> frozen;
  for (const TrainedParameter& parameter : model.parameters) {
    frozen.push_back(!parameters[parameter.name].requires_grad());
  }
  if (std::find(frozen.begin(), frozen.end(), true) == frozen.end()) return model;
  const Part part = PartOf(model, frozen);
  CountOperations(model, part);
  model.memory = [whole = std::move(model.memory), part](ModelPass pass) {
    pass.kept_blocks = part.blocks;
    PassMemory memory = whole(pass);
    const int64_t unkept = part.unkept + (memory.attends_in_groups ? part.in_groups : 0);
    if (!pass.recomputes) memory.kept_bytes -= pass.tokens * unkept * pass.element_bytes;
    return memory;
  };
  Freeze(frozen, model);
  return model;
}

}  // namespace distill
