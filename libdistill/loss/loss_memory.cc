#include "libdistill/loss/loss_memory.h"

#include <algorithm>

#include "libdistill/loss/head_products_cublas.h"

namespace distill {
namespace {

constexpr int64_t kWide = sizeof(float);

// Models of which a chunk's logits are in memory.
int64_t ModelsOf(const LossShape& shape) { return shape.teacher_hidden > 0 || shape.has_teacher_logits ? 2 : 1; }

int64_t MostOnCpu(const LossShape& shape) {
  constexpr int64_t kTokens = 256, kSmall = 80 << 20;
  const int64_t asked = shape.chunk_tokens > 0 ? shape.chunk_tokens : kTokens;
  const int64_t of_a_token = ModelsOf(shape) * shape.vocabulary * shape.element_bytes;
  const int64_t of_head = shape.vocabulary * shape.student_hidden * shape.element_bytes;
  return std::clamp<int64_t>(std::max(kSmall, of_head) / of_a_token, 1, asked);
}

bool IsNarrowOnGpu(const LossShape& shape) { return shape.on_gpu && shape.element_bytes < kWide; }
bool HasWideLogits(const LossShape& shape) { return IsNarrowOnGpu(shape) && shape.has_wide_products; }

int64_t LogitBytes(const LossShape& shape, bool are_wide) {  // of a token
  const int64_t of_a_model =
      are_wide ? WideRowStride(shape.vocabulary) * kWide : shape.vocabulary * shape.element_bytes;
  return ModelsOf(shape) * of_a_model;
}

// What a chunk of C tokens costs whatever C is: its product G^T h reads and writes the head's float32 gradient, 8 bytes
// of each of V H numbers, and has 2 C operations for it. With R operations and B bytes a second arithmetic takes longer
// from C = 4 R / B on. By the makers' figures that is, in bfloat16 (float16 on T4):
//   A10G 470   A100 of 80 GB 610   A100 of 40 GB 800   T4 810   H200 820   B200 1130   H100 1180
// and products reach three quarters of R at best: 1024 tokens do. In float32, without tensor cores, it is 40 to 210.
// Narrow types are cut as for float32 logits on every GPU, also where it has none.
int64_t MostOnGpu(const LossShape& shape) {
  if (shape.chunk_tokens > 0) return shape.chunk_tokens;
  constexpr int64_t kNarrowTokens = 1024, kTokens = 256;
  constexpr int64_t kFewest = 128;  // rows that a block of threads multiplies; tensor cores multiply no fewer
  constexpr int64_t kShare = 16;
  const int64_t wanted = shape.element_bytes < kWide ? kNarrowTokens : kTokens;
  if (shape.device_bytes == 0) return wanted;
  return std::clamp<int64_t>(shape.device_bytes / kShare / LogitBytes(shape, IsNarrowOnGpu(shape)), kFewest, wanted);
}

// Rows of the head's gradient [V, H] in the narrow type, and what the product that makes them takes; what the products
// that make a chunk's logits take is there before these rows are.
void AddProductsOnCpu(const LossShape& shape, LossMemory& memory) {
  const int64_t hidden = shape.student_hidden, chunk = ChunkTokens(shape);
  const auto scratch_of = [&](int64_t rows, int64_t in, int64_t out) {
    return shape.scratch ? shape.scratch(rows, in, out) : 0;
  };
  int64_t of_gradient = 0;
  if (shape.trains_head && shape.element_bytes < kWide) {
    const int64_t rows = std::min(shape.vocabulary, SliceRows(hidden, shape.element_bytes));
    memory.rounding_bytes = hidden * rows * shape.element_bytes;
    of_gradient = memory.rounding_bytes + scratch_of(rows, chunk, hidden);
  }
  const int64_t of_logits = scratch_of(chunk, std::max(hidden, shape.teacher_hidden), shape.vocabulary);
  memory.workspace_bytes = std::max(of_gradient, of_logits) - memory.rounding_bytes;
}

}  // namespace

int64_t ChunkTokens(const LossShape& shape) {
  const int64_t most = shape.on_gpu ? MostOnGpu(shape) : MostOnCpu(shape);
  const int64_t chunks = std::max<int64_t>(1, (shape.tokens + most - 1) / most);
  return (shape.tokens + chunks - 1) / chunks;
}

int64_t WideRowStride(int64_t vocabulary) {
  constexpr int64_t kInLine = 128 / sizeof(float);
  return (vocabulary + kInLine - 1) / kInLine * kInLine;
}

int64_t SliceRows(int64_t hidden, int64_t element_bytes) {
  constexpr int64_t kFewest = 1024;  // below which products lose more than the cache gives
  constexpr int64_t kBytes = 2 << 20;
  return std::max(kFewest, kBytes / (hidden * element_bytes));
}

LossMemory MemoryOf(const LossShape& shape) {
  const int64_t bytes = shape.element_bytes;
  LossMemory memory;
  memory.chunk_bytes = ChunkTokens(shape) * LogitBytes(shape, HasWideLogits(shape));
  memory.gradient_bytes = shape.tokens * shape.student_hidden * bytes;
  if (shape.trains_head && !shape.is_borrowed)
    memory.gradient_bytes += shape.student_rows * shape.student_hidden * kWide;
  if (HasWideLogits(shape)) {
    memory.workspace_bytes = kProductWorkspaceBytes;
  } else if (IsNarrowOnGpu(shape)) {
    // LibTorch's product in the narrow type, of all rows at once.
    if (shape.trains_head) memory.rounding_bytes = shape.vocabulary * shape.student_hidden * bytes;
  } else {
    AddProductsOnCpu(shape, memory);
  }
  memory.teacher_bytes = shape.tokens * shape.teacher_hidden * bytes;
  return memory;
}

}  // namespace distill
