// What a plan knows of a model, whatever its family: its parameters, what its passes take and how much they compute,
// out of its shape alone. A new family is one more function that fills in the struct.
//
//   MemoryPlanTask task;
//   task.student = Planned(student_config);                     // a decoder
//   task.teacher = Planned(teacher_config, EncoderUse::kWords); // an encoder
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libdistill/gradients/parameters.h"
#include "libdistill/nn/decoder_config.h"
#include "libdistill/nn/encoder_config.h"
#include "libdistill/nn/encoder_memory.h"
#include "libdistill/nn/gru.h"
#include "libdistill/nn/pass_memory.h"

namespace distill {

class Decoder;

// "Token" is what the model works on one by one: of a recurrent network, a frame.
struct PlannedModel {
  std::string family = {};                        // for people: "qwen2"
  std::vector<TrainedParameter> parameters = {};  // on the device "meta", in the module's order
  std::vector<int64_t> block_of = {};             // of each parameter: its block, which zero_stage 3 shards; -1: none
  std::vector<TrainedParameter> frozen = {};      // that are not trained, and whole on every rank (PlannedPart)
  std::vector<std::vector<int64_t>> blocks =
      {};              // elements of each block's weights, as GatedModel::BlockWeights has them
  int64_t hidden = 0;  // numbers of a token's state
  int64_t widest = 0;  // of its widest one within a block
  // Above 0: rows of the head, of whose products DistillationLoss takes its loss chunk by chunk. 0: the model gives
  // what its loss takes whole (`memory` counts it).
  int64_t vocabulary = 0;
  bool is_tied = false;       // the head is the embedding's table
  int64_t last_gradient = 0;  // elements of the gradient with which a backward pass ends: the embedding's table
  int64_t input_bytes = 8;    // of a token in a batch on the host: its id and its label
  // What a pass takes.
  std::function<PassMemory(const ModelPass& pass)> memory = {};
  // Floating-point operations of a token's forward pass in a row of `length` tokens: 2 for each weight that multiplies
  // it, the head's included, and 4 for each number of a state, layer and token that attention looks at.
  std::function<double(int64_t length)> forward_flops = {};
  // The same of its backward pass, and of what is computed again where activations are not kept. Not set: twice, and
  // once as many as of the forward pass.
  std::function<double(int64_t length)> backward_flops = {}, again_flops = {};
  // The share of a GPU's peak that training reaches where nobody has measured it (time_plan.h).
  double efficiency = 0.35;

  bool trains_head = true;   // false: the head is frozen
  int64_t elements() const;  // of all parameters that are trained
  int64_t frozen_elements() const;
};

// A parameter that a recipe's model has beside those of the family. `multiplied`: the share of tokens that it
// multiplies, where it is a matrix.
void AddParameter(PlannedModel& model, const std::string& name, const std::vector<int64_t>& shape,
                  double multiplied = 0);

PlannedModel Planned(const DecoderConfig& config);
// Of such a one of which a part is trained: those parameters of `shapes` (DecoderShapes) that require gradients
// (task/unfreeze.h), at least one, or adapters (nn/adapters.h). A backward pass then ends at the lowest block with one
// of them, and of the inputs of frozen matrices nothing is kept.
PlannedModel PlannedPart(const DecoderConfig& config, const Decoder& shapes);
// `labels`: of a classifier.
PlannedModel Planned(const EncoderConfig& config, EncoderUse use, int64_t labels = 2);
// `targets`: classes in a row, over which CTC sums.
PlannedModel Planned(const GruOptions& options, int64_t targets);

}  // namespace distill
