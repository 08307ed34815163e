#include "libdistill/nn/gru_memory.h"

#include <algorithm>

#include "libdistill/nn/row_products.h"

// Elements a frame, in the names of gru.h: F features, H hidden, D directions, C classes.
namespace distill {

PassMemory MemoryOf(const GruOptions& options, int64_t targets, const ModelPass& pass) {
  constexpr int64_t kFloat = sizeof(float);
  const int64_t hidden = options.hidden, directions = options.is_bidirectional ? 2 : 1, layers = options.layers;
  const int64_t output = directions * hidden, features = options.features, gates = 3 * hidden;
  // gru_recurrence.cc: in the weights' type where it has products of them.
  const bool is_widened = !pass.on_gpu && pass.element_bytes < kFloat && !RowProductLoopsFor(DType::kBFloat16);
  const int64_t state_bytes = pass.on_gpu || is_widened ? kFloat : pass.element_bytes;
  const auto floats = [&](int64_t elements) { return pass.tokens * elements * kFloat; };
  const auto bytes = [&](int64_t elements) { return pass.tokens * elements * pass.element_bytes; };
  const auto states = [&](int64_t elements) { return pass.tokens * elements * state_bytes; };
  // Four numbers and the state of each hidden one.
  const int64_t of_layer = pass.on_gpu ? bytes(6 * output) : states(5 * output);
  const bool drops = pass.drops && options.dropout > 0;
  const int64_t dropped = drops && pass.on_gpu ? (layers - 1) * pass.tokens * output : 0;
  // CTC's sums over all prefixes of the targets, with blanks between.
  const int64_t sums = floats(2 * targets + 1), log_probabilities = floats(options.classes);
  PassMemory memory;
  // The layers' inputs and the classifier's. On CPUs a layer's output is the next one's input as it is, where nothing
  // is dropped of it, and no other direction put beside it; and so is the last one's the classifier's.
  const bool is_copied = pass.on_gpu || directions == 2 || is_widened;
  const int64_t copies = is_copied ? layers : drops ? layers - 1 : 0;
  memory.kept_bytes = layers * of_layer + bytes(features + copies * output) + dropped + log_probabilities + sums;
  memory.output_bytes = log_probabilities;
  // A layer's input, its product with the weights, and its output; or the last one's states and what is made of them.
  // The weights of the state are laid out beside themselves.
  const int64_t of_weights = gates * hidden * state_bytes;
  memory.forward_bytes = std::max(
      bytes(std::max(features, output)) + states(std::max(gates + output, 2 * output)) + (pass.on_gpu ? 0 : of_weights),
      bytes(2 * output) + 2 * log_probabilities);
  // The gradient of a layer's output, those of both products, with the states before each frame, and of a weight; then
  // of the input's product, of the input and of its weight; or those of the loss.
  const int64_t of_states = states(output + 2 * gates + hidden) + of_weights;
  const int64_t of_input = bytes(gates + output) + gates * std::max(features, output) * pass.element_bytes;
  const int64_t of_loss = 2 * log_probabilities + sums;
  memory.backward_bytes = std::max({of_states, of_input, of_loss});
  return memory;
}

}  // namespace distill
