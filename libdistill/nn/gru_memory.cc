#include "libdistill/nn/gru_memory.h"

#include <algorithm>

// Elements a frame, in the names of gru.h: F features, H hidden, D directions, C classes.
namespace distill {

PassMemory MemoryOf(const GruOptions& options, int64_t targets, const ModelPass& pass) {
  constexpr int64_t kFloat = sizeof(float);
  const int64_t hidden = options.hidden, directions = options.is_bidirectional ? 2 : 1, layers = options.layers;
  const int64_t output = directions * hidden, features = options.features;
  const auto floats = [&](int64_t elements) { return pass.tokens * elements * kFloat; };
  const auto bytes = [&](int64_t elements) { return pass.tokens * elements * pass.element_bytes; };
  // gru_recurrence.cc: four numbers and the state of each hidden one, in float32.
  const int64_t of_layer = pass.on_gpu ? bytes(6 * output) : floats(5 * output);
  const bool drops = pass.drops && options.dropout > 0;
  const int64_t dropped = drops && pass.on_gpu ? (layers - 1) * pass.tokens * output : 0;
  // CTC's sums over all prefixes of the targets, with blanks between.
  const int64_t sums = floats(2 * targets + 1), log_probabilities = floats(options.classes);
  PassMemory memory;
  // The layers' inputs and the classifier's. On CPUs a layer's output is the next one's input as it is, where nothing
  // is dropped of it, and no other direction put beside it.
  const bool is_shared = !pass.on_gpu && !drops && directions == 1;
  const int64_t inputs = features + (is_shared ? output : layers * output);
  memory.kept_bytes = layers * of_layer + bytes(inputs) + dropped + log_probabilities + sums;
  memory.output_bytes = log_probabilities;
  // A layer's input, its product with the weights and its output; or the last one's states, padded, and what is made of
  // them.
  memory.forward_bytes = std::max(bytes(std::max(features, output)) + floats(std::max(3 * hidden + output, 2 * output)),
                                  bytes(2 * output) + 2 * log_probabilities);
  // The gradient of a layer's output, those of both products, with the states before each frame, and of a weight; then
  // of the input's product, of the input and of its weight; or those of the loss.
  const int64_t gates = 3 * hidden;
  const int64_t of_states = floats(output + 2 * gates + hidden) + gates * hidden * kFloat;
  const int64_t of_input = bytes(gates + output) + gates * std::max(features, output) * pass.element_bytes;
  const int64_t of_loss = 2 * log_probabilities + sums;
  memory.backward_bytes = std::max({of_states, of_input, of_loss});
  return memory;
}

}  // namespace distill
