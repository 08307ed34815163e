// How much memory DistillationLoss takes, from shapes alone: what plan/memory_plan.h adds up.
#pragma once

#include <cstdint>

#include "libdistill/tensor/product_scratch.h"

namespace distill {

struct LossShape {
  int64_t tokens = 0;        // at which the loss is taken
  int64_t chunk_tokens = 0;  // as in DistillationOptions
  int64_t vocabulary = 0;    // rows that take part
  int64_t student_rows = 0, student_hidden = 0;
  int64_t teacher_hidden = 0;       // 0: no teacher's states
  bool has_teacher_logits = false;  // in place of them: a chunk's, cut to the vocabulary or made of top-k values
  int64_t element_bytes = 4;        // of both models' type
  bool trains_head = true;          // false: it is frozen, and has no gradient
  bool on_gpu = false;
  bool has_wide_products = true;  // of narrow types on that GPU (CheckWideProducts, head_products_cublas.h)
  int64_t device_bytes = 0;       // all memory of the GPU; 0: not known
  bool is_borrowed = false;       // memory for the head's gradient (DistillationInputs::student_weight_gradient)
  ProductScratch scratch = {};    // of products on CPUs; none: they take nothing
};

struct LossMemory {
  int64_t chunk_bytes = 0;      // of a chunk's products, both models'
  int64_t gradient_bytes = 0;   // of hidden states and head: made with the loss, kept until the backward pass has them
  int64_t rounding_bytes = 0;   // of narrow types without wide products: a chunk's share of the head's gradient, or
                                // on CPUs a slice of it
  int64_t workspace_bytes = 0;  // for products, of narrow types: on CPUs what is above rounding_bytes at the most
  int64_t teacher_bytes = 0;    // the teacher's hidden states
  int64_t during_bytes() const {
    return chunk_bytes + gradient_bytes + rounding_bytes + workspace_bytes + teacher_bytes;
  }
};

// Without what is given of the teacher itself but its states. Narrow types on a GPU without wide products: logits of
// the narrow type, and in rounding_bytes a chunk's whole share of the head's gradient.
LossMemory MemoryOf(const LossShape& shape);

// How many tokens a chunk has, but for the last. Chunks are alike, and shape.chunk_tokens is what one has at most,
// where that is above 0. On CPUs it is 256 otherwise; and fewer where the logits of both models would take more than
// the student's head does, or 80 MiB if that is more. Each chunk packs both heads' weights anew for its products, which
// for 256 tokens takes a twelfth of the time; so chunks are no smaller than that. On GPUs it is otherwise 1024 for
// narrow types and 256 for others, by which products are bound by the rate of arithmetic (loss_memory.cc), but no more
// than the logits of both models take a sixteenth of the GPU's memory for, and at least 128. Of all its memory, not of
// what is free: sums depend on how tokens are cut, and a run that is repeated must give the same bits.
int64_t ChunkTokens(const LossShape& shape);

// Elements from a row of a chunk's float32 products to the next, on a GPU: rows begin at cache lines, whatever the
// vocabulary is, since products of matrices whose rows are not aligned take longer.
int64_t WideRowStride(int64_t vocabulary);

// Of a narrow type's product with `hidden` columns that is to be added to a wide one: how many rows a CPU makes at
// once.
int64_t SliceRows(int64_t hidden, int64_t element_bytes);

}  // namespace distill
