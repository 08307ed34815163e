// How much memory DistillationLoss takes, from shapes alone: what plan/memory_plan.h adds up.
#pragma once

#include <cstdint>

namespace distill {

struct LossShape {
  int64_t tokens = 0;  // at which the loss is taken
  int64_t chunk_tokens = 0;
  int64_t vocabulary = 0;  // rows that take part
  int64_t student_rows = 0, student_hidden = 0;
  int64_t teacher_hidden = 0;       // 0: no teacher's states
  bool has_teacher_logits = false;  // in place of them: a chunk's, cut to the vocabulary or made of top-k values
  int64_t element_bytes = 4;        // of both models' type
  bool trains_head = true;          // false: it is frozen, and has no gradient
  bool on_gpu = false;
  bool is_borrowed = false;  // memory for the head's gradient (DistillationInputs::student_weight_gradient)
};

struct LossMemory {
  int64_t chunk_bytes = 0;     // of a chunk's products, both models'
  int64_t gradient_bytes = 0;  // of hidden states and head: made with the loss, kept until the backward pass has them
  int64_t rounding_bytes = 0;  // of narrow types, a chunk's share of the head's gradient; on CPUs a slice of it
  int64_t teacher_bytes = 0;   // the teacher's hidden states
  int64_t during_bytes() const { return chunk_bytes + gradient_bytes + rounding_bytes + teacher_bytes; }
};

// Without what is given of the teacher itself but its states.
LossMemory MemoryOf(const LossShape& shape);

// How many tokens a chunk has, but for the last: shape.chunk_tokens at most, and fewer where the logits of both models
// would take more than the student's head does, or 80 MiB if that is more. Each chunk packs both heads' weights anew
// for its products, which for 256 tokens takes a twelfth of the time; so chunks are no smaller than that, and alike.
int64_t ChunkTokens(const LossShape& shape);

// Of a narrow type's product with `hidden` columns that is to be added to a wide one: how many rows a CPU makes at
// once.
int64_t SliceRows(int64_t hidden, int64_t element_bytes);

}  // namespace distill
