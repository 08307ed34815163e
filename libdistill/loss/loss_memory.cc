#include "libdistill/loss/loss_memory.h"

#include <algorithm>

namespace distill {
namespace {

// Models of which a chunk's logits are in memory.
int64_t ModelsOf(const LossShape& shape) { return shape.teacher_hidden > 0 || shape.has_teacher_logits ? 2 : 1; }

}  // namespace

int64_t ChunkTokens(const LossShape& shape) {
  constexpr int64_t kSmall = 80 << 20;
  const int64_t of_a_token = ModelsOf(shape) * shape.vocabulary * shape.element_bytes;
  const int64_t of_head = shape.vocabulary * shape.student_hidden * shape.element_bytes;
  const int64_t most = std::clamp<int64_t>(std::max(kSmall, of_head) / of_a_token, 1, shape.chunk_tokens);
  const int64_t chunks = std::max<int64_t>(1, (shape.tokens + most - 1) / most);
  return (shape.tokens + chunks - 1) / chunks;
}

int64_t SliceRows(int64_t hidden, int64_t element_bytes) {
  constexpr int64_t kFewest = 1024;  // below which products lose more than the cache gives
  constexpr int64_t kBytes = 2 << 20;
  return std::max(kFewest, kBytes / (hidden * element_bytes));
}

LossMemory MemoryOf(const LossShape& shape) {
  constexpr int64_t kWide = sizeof(float);
  const int64_t bytes = shape.element_bytes;
  const int64_t chunk = ChunkTokens(shape);
  LossMemory memory;
  memory.chunk_bytes = ModelsOf(shape) * chunk * shape.vocabulary * bytes;
  memory.gradient_bytes = shape.tokens * shape.student_hidden * bytes;
  if (shape.trains_head && !shape.is_borrowed)
    memory.gradient_bytes += shape.student_rows * shape.student_hidden * kWide;
  // The product [V, H] in the narrow type; on CPUs rows of it.
  if (shape.trains_head && bytes < kWide) {
    const int64_t rows = std::min(shape.vocabulary, SliceRows(shape.student_hidden, bytes));
    memory.rounding_bytes = shape.student_hidden * (shape.on_gpu ? shape.vocabulary : rows) * bytes;
  }
  memory.teacher_bytes = shape.tokens * shape.teacher_hidden * bytes;
  return memory;
}

}  // namespace distill
